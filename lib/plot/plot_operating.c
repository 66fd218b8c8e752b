#include "plot/plot_operating.h"

#include "base/order.h"
#include "plot/svg.h"

enum {
    WIDTH = 980,
    HEIGHT = 450,
    PANEL_WIDTH = 390,
    PANEL_HEIGHT = 250,
    LEFT = 60,
    RIGHT = 550,
    TOP = 80,
    MOST_STEPS = 6,
    LABEL_HEIGHT = 14,
    PLOT_MAX_DELAYS = 4,
    MOST_NAMES = 8,
    NAME_WIDTH = 160
};

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

ORDER_BY(by_x, struct plot_point, order_f64(x->x, y->x))

/* A line of the legend below the axis. */
static void draw_legend(const struct panel *p, int row, const char *class, const char *name) {
    double y = TOP + PANEL_HEIGHT + 58 + LABEL_HEIGHT * row;
    svg_line(p->g, p->left, y, p->left + 20, y, class);
    svg_text(p->g, p->left + 26, y + 4, "name", "start", name);
}

/* The best sensitivity of any point with at most so many false alarms, as stairs. */
static int draw_best(const struct panel *panel, const struct plot_choice *c, const char *class, struct err *err) {
    struct plot_point *sorted = malloc(((size_t)c->n_points + 1) * sizeof *sorted);
    if (!sorted)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a plot");
    int n = 0;
    for (int i = 0; i < c->n_points; i++)
        if (isfinite(c->points[i].x) && isfinite(c->points[i].y))
            sorted[n++] = c->points[i];
    SORT(sorted, n, by_x);
    struct svg_path path;
    double best = 0;
    svg_path_open(&path, panel->g, class);
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

/* Where names of marks stand already. */
struct names {
    double x[MOST_NAMES], y[MOST_NAMES];
    int n;
};

/* The height of a name beside a mark at y, away from the axis and from other names. */
static double free_height(struct names *names, double x, double y) {
    bool up = y > TOP + PANEL_HEIGHT * 0.75;
    double at = up ? y - 7 : y + 15;
    for (int i = 0; i < names->n; i++)
        if (fabs(names->x[i] - x) < NAME_WIDTH && fabs(names->y[i] - at) < LABEL_HEIGHT) {
            at += up ? -LABEL_HEIGHT : LABEL_HEIGHT;
            i = -1; /* it may meet another one there */
        }
    if (names->n < MOST_NAMES) {
        names->x[names->n] = x;
        names->y[names->n++] = at;
    }
    return at;
}

static void draw_chosen(const struct panel *panel, const struct plot_choice *c, const char *class, struct names *names) {
    for (int i = 0; i < c->n_chosen; i++) {
        const struct plot_mark *m = &c->chosen[i];
        if (!isfinite(m->false_alarms_per_24h) || !isfinite(m->sensitivity))
            continue;
        char tip[160];
        double x = x_of(panel, m->false_alarms_per_24h), y = y_of(m->sensitivity);
        bool right = x < panel->left + PANEL_WIDTH - NAME_WIDTH;
        str_format(tip, sizeof tip, "%.60s: sensitivity %.3f at %.2f false alarms in 24 h", m->name, m->sensitivity,
                   m->false_alarms_per_24h);
        svg_rect(panel->g, &(struct svg_box){x - 4, y - 4, 8, 8}, class, tip);
        svg_text(panel->g, right ? x + 8 : x - 8, free_height(names, x, y), "name", right ? "start" : "end", m->name);
    }
}

static const char *const delay_classes[PLOT_MAX_DELAYS] = {"line line3", "line line5", "line line4", "line line7"};

/* Share of all seizures whose alarm came within so many seconds. */
static void draw_delays(const struct panel *panel, const struct plot_delays *d, int64_t seizures, const char *class) {
    struct svg_path path;
    svg_path_open(&path, panel->g, class);
    svg_path_move(&path, x_of(panel, 0), y_of(0));
    for (int64_t i = 0; i < d->n && seizures; i++) {
        svg_path_line(&path, x_of(panel, d->delays_s[i]), y_of((double)i / (double)seizures));
        svg_path_line(&path, x_of(panel, d->delays_s[i]), y_of((double)(i + 1) / (double)seizures));
    }
    if (seizures)
        svg_path_line(&path, x_of(panel, panel->highest), y_of((double)d->n / (double)seizures));
    svg_path_close(&path);
}

static double beyond(const struct plot_choice *c, double far) {
    for (int i = 0; i < c->n_chosen; i++)
        if (isfinite(c->chosen[i].false_alarms_per_24h))
            far = fmax(far, 2 * c->chosen[i].false_alarms_per_24h);
    return far;
}

/* The end of the left picture's x axis, in false alarms per 24 h: 20, or twice the farthest chosen point. */
static double farthest(const struct plot_operating *p) { return beyond(&p->alarms, beyond(&p->events, 20)); }

/* The left picture. */
static int draw_choices(struct svg *g, const struct plot_operating *p, struct err *err) {
    struct panel panel = {g, LEFT, farthest(p)};
    struct names names = {.n = 0};
    int rc;
    draw_axes(&panel, "sensitivity", "false alarms in 24 h");
    if ((rc = draw_best(&panel, &p->events, "curve", err)))
        return rc;
    if (p->alarms.n_points && (rc = draw_best(&panel, &p->alarms, delay_classes[0], err)))
        return rc;
    if (p->alarms.n_points)
        draw_legend(&panel, 1, delay_classes[0], p->alarms.name);
    draw_legend(&panel, 0, "curve", p->events.name);
    draw_chosen(&panel, &p->events, "detected", &names);
    draw_chosen(&panel, &p->alarms, "alarm", &names);
    return 0;
}

/* The right one. */
static void draw_all_delays(struct svg *g, const struct plot_operating *p) {
    double longest = 30;
    int64_t any = 0;
    int n = p->n_delays < PLOT_MAX_DELAYS ? p->n_delays : PLOT_MAX_DELAYS;
    for (int i = 0; i < n; i++) {
        any += p->delays[i].n;
        longest = fmax(longest, p->delays[i].n ? p->delays[i].delays_s[p->delays[i].n - 1] : 0);
    }
    struct panel panel = {g, RIGHT, longest};
    const char *name = p->of_events ? "share of the seizures that were found" : "share of the seizures with an alarm";
    draw_axes(&panel, any ? name : "no alarm at or after an onset", "seconds after the onset");
    for (int i = 0; i < n; i++) {
        draw_delays(&panel, &p->delays[i], p->seizures, delay_classes[i]);
        draw_legend(&panel, i, delay_classes[i], p->delays[i].name);
    }
}

int plot_operating(const char *path, const struct plot_operating *p, struct err *err) {
    struct svg g;
    svg_open(&g, WIDTH, HEIGHT, p->title);
    svg_text(&g, LEFT, 30, "title", "start", p->title);
    svg_text(&g, LEFT, 50, "muted", "start", p->subtitle);
    int rc = draw_choices(&g, p, err);
    draw_all_delays(&g, p);
    if (rc) {
        str_done(&g.out);
        return rc;
    }
    return svg_save(&g, path, err);
}
