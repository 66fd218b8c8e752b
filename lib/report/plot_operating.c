#include "report/plot_operating.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "report/svg.h"

enum { WIDTH = 980, HEIGHT = 400, PANEL_WIDTH = 390, PANEL_HEIGHT = 250, LEFT = 60, RIGHT = 550, TOP = 80, MOST_STEPS = 6 };

/* One of the two diagrams: y is a share, 0 to 1. */
struct panel {
    struct svg *g;
    double left, highest; /* of the picture; of its x axis */
};

static double x_of(const struct panel *p, double x) { return p->left + PANEL_WIDTH * fmin(x, p->highest) / p->highest; }

static double y_of(double share) { return TOP + PANEL_HEIGHT * (1 - share); }

static void draw_axes(const struct panel *p, const char *name, const char *x_name) {
    char text[32];
    svg_text(p->g, p->left, TOP - 14, "name", "start", name);
    for (int i = 0; i <= 5; i++) {
        str_format(text, sizeof text, "%.1f", i * 0.2);
        svg_line(p->g, p->left, y_of(i * 0.2), p->left + PANEL_WIDTH, y_of(i * 0.2), i ? "grid" : "axis");
        svg_text(p->g, p->left - 8, y_of(i * 0.2) + 4, "tick", "end", text);
    }
    double step = svg_step(p->highest, MOST_STEPS);
    for (int i = 0; i * step <= p->highest * 1.001; i++) {
        str_format(text, sizeof text, "%g", i * step);
        svg_text(p->g, x_of(p, i * step), TOP + PANEL_HEIGHT + 18, "tick", "middle", text);
    }
    svg_text(p->g, p->left + PANEL_WIDTH / 2.0, TOP + PANEL_HEIGHT + 38, "muted", "middle", x_name);
}

static int by_x(const void *a, const void *b) {
    const struct plot_point *p = a, *q = b;
    return (p->x > q->x) - (p->x < q->x);
}

/* The best sensitivity of any point with at most so many false alarms, as stairs. */
static int draw_best(const struct panel *panel, const struct plot_operating *p, struct err *err) {
    struct plot_point *sorted = malloc(((size_t)p->n_points + 1) * sizeof *sorted);
    if (!sorted)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a plot");
    int n = 0;
    for (int i = 0; i < p->n_points; i++)
        if (isfinite(p->points[i].x) && isfinite(p->points[i].y))
            sorted[n++] = p->points[i];
    qsort(sorted, (size_t)n, sizeof *sorted, by_x);
    struct svg_path path;
    double best = 0;
    svg_path_open(&path, panel->g, "curve");
    svg_path_move(&path, x_of(panel, 0), y_of(0));
    for (int i = 0; i < n && sorted[i].x <= panel->highest; i++) {
        if (sorted[i].y <= best)
            continue;
        svg_path_line(&path, x_of(panel, sorted[i].x), y_of(best));
        svg_path_line(&path, x_of(panel, sorted[i].x), y_of(best = sorted[i].y));
    }
    svg_path_line(&path, x_of(panel, panel->highest), y_of(best));
    svg_path_close(&path);
    free(sorted);
    return 0;
}

static void draw_chosen(const struct panel *panel, const struct plot_operating *p) {
    for (int i = 0; i < p->n_chosen; i++) {
        const struct plot_mark *m = &p->chosen[i];
        if (!isfinite(m->false_alarms_per_24h) || !isfinite(m->sensitivity))
            continue;
        char tip[160];
        double x = x_of(panel, m->false_alarms_per_24h), y = y_of(m->sensitivity);
        str_format(tip, sizeof tip, "%.60s: sensitivity %.3f at %.2f false alarms in 24 h", m->name, m->sensitivity,
                   m->false_alarms_per_24h);
        svg_rect(panel->g, &(struct svg_box){x - 4, y - 4, 8, 8}, "detected", tip);
        svg_text(panel->g, x + 8, y + 14, "name", "start", m->name);
    }
}

/* Share of all seizures whose alarm came within so many seconds. */
static void draw_delays(const struct panel *panel, const struct plot_operating *p) {
    struct svg_path path;
    svg_path_open(&path, panel->g, "curve");
    svg_path_move(&path, x_of(panel, 0), y_of(0));
    for (int64_t i = 0; i < p->n_delays && p->seizures; i++) {
        svg_path_line(&path, x_of(panel, p->delays_s[i]), y_of((double)i / (double)p->seizures));
        svg_path_line(&path, x_of(panel, p->delays_s[i]), y_of((double)(i + 1) / (double)p->seizures));
    }
    if (p->seizures)
        svg_path_line(&path, x_of(panel, panel->highest), y_of((double)p->n_delays / (double)p->seizures));
    svg_path_close(&path);
}

/* The end of the left picture's x axis, in false alarms per 24 h: 20, or twice the farthest chosen point. */
static double farthest(const struct plot_operating *p) {
    double far = 20;
    for (int i = 0; i < p->n_chosen; i++)
        if (isfinite(p->chosen[i].false_alarms_per_24h))
            far = fmax(far, 2 * p->chosen[i].false_alarms_per_24h);
    return far;
}

int plot_operating(const char *path, const struct plot_operating *p, struct err *err) {
    struct svg g;
    double longest = p->n_delays ? p->delays_s[p->n_delays - 1] : 0;
    struct panel points = {&g, LEFT, farthest(p)}, delays = {&g, RIGHT, fmax(30, longest)};
    svg_open(&g, WIDTH, HEIGHT, p->title);
    svg_text(&g, LEFT, 30, "title", "start", p->title);
    svg_text(&g, LEFT, 50, "muted", "start", p->subtitle);
    draw_axes(&points, "sensitivity of events", "false alarms in 24 h");
    int rc = draw_best(&points, p, err);
    draw_chosen(&points, p);
    draw_axes(&delays, p->n_delays ? "share of the seizures with an alarm" : "no alarm at or after an onset",
              "seconds after the onset");
    draw_delays(&delays, p);
    if (!rc)
        return svg_save(&g, path, err);
    str_done(&g.out);
    return rc;
}
