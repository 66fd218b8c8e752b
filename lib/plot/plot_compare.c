#include "plot/plot_compare.h"

#include "plot/svg.h"

enum { EDGE = 70, TOP = 96, WIDTH = 900, HEIGHT = 240, GAP = 74, MARGIN = 30 };

/* One of the two panels: where it lies, and its ranges from 0 on. */
struct panel {
    double top, last_x, most_y;
    bool score;
};

static void compare_widen(const struct plot_compare *p, bool score, double *last_x, double *most_y) {
    for (int i = 0; i < p->n; i++)
        for (int side = 0; side < 2; side++)
            for (int k = 0; k < p->quantities[i].n[side]; k++) {
                const struct plot_point *at = &p->quantities[i].x[side][k];
                *last_x = isfinite(at->y) ? fmax(*last_x, at->x) : *last_x;
                *most_y = isfinite(at->y) && p->quantities[i].score == score ? fmax(*most_y, at->y) : *most_y;
            }
}

static void draw_frame(struct svg *g, const struct panel *f) {
    const double bottom = f->top + HEIGHT, step_x = svg_step(f->last_x, 8), step_y = svg_step(f->most_y, 5);
    char text[32];
    for (int i = 0; i * step_y <= f->most_y * (1 + 1e-9); i++) {
        const double y = bottom - HEIGHT * i * step_y / f->most_y;
        svg_line(g, EDGE, y, EDGE + WIDTH, y, "grid");
        str_format(text, sizeof text, "%.6g", i * step_y);
        svg_text(g, EDGE - 8, y + 4, "tick", "end", text);
    }
    for (int i = 0; i * step_x <= f->last_x * (1 + 1e-9); i++) {
        const double x = EDGE + WIDTH * i * step_x / f->last_x;
        svg_line(g, x, bottom, x, bottom + 5, "axis");
        str_format(text, sizeof text, "%.7g", i * step_x);
        svg_text(g, x, bottom + 19, "tick", "middle", text);
    }
    svg_line(g, EDGE, bottom, EDGE + WIDTH, bottom, "axis");
    svg_text_up(g, EDGE - 48, f->top + HEIGHT / 2.0, "muted", f->score ? "score" : "loss");
    svg_text(g, EDGE + WIDTH, bottom + 36, "muted", "end", "step");
}

static void draw_side(struct svg *g, const struct panel *f, const struct plot_quantity *q, int side, int color) {
    struct svg_path path;
    char class[40];
    bool started = false;
    str_format(class, sizeof class, "line line%d%s", color, side ? " dashed" : "");
    svg_path_open(&path, g, class);
    for (int k = 0; k < q->n[side]; k++) {
        const struct plot_point *at = &q->x[side][k];
        if (!isfinite(at->y))
            continue;
        (started ? svg_path_line : svg_path_move)(&path, EDGE + WIDTH * at->x / f->last_x,
                                                  f->top + HEIGHT - HEIGHT * fmin(fmax(at->y / f->most_y, 0), 1));
        started = true;
    }
    svg_path_close(&path);
}

/* The curves of a panel, and their names above it. */
static void draw_panel(struct svg *g, const struct plot_compare *p, const struct panel *f) {
    const char *names[PLOT_COMPARE_MOST];
    int n = 0;
    draw_frame(g, f);
    for (int i = 0; i < p->n; i++) {
        const struct plot_quantity *q = &p->quantities[i];
        if (q->score != f->score || !(q->n[0] + q->n[1]))
            continue;
        for (int side = 0; side < 2; side++)
            draw_side(g, f, q, side, n);
        names[n++] = q->name;
    }
    svg_legend(g, EDGE, f->top - 12, names, n);
}

int plot_compare_draw(const char *path, const struct plot_compare *p, struct err *err) {
    struct panel loss = {.top = TOP}, score = {.top = TOP + HEIGHT + GAP, .most_y = 1, .score = true};
    double highest_score = 0;
    struct svg g;
    compare_widen(p, false, &loss.last_x, &loss.most_y);
    compare_widen(p, true, &score.last_x, &highest_score);
    if (!(loss.last_x > 0) || p->n > PLOT_COMPARE_MOST)
        return err_set(err, ERR_INVALID, "cannot plot two trainings without a step");
    loss.most_y = loss.most_y > 0 ? loss.most_y : 1;
    svg_open(&g, EDGE + WIDTH + MARGIN, score.top + (highest_score > 0 ? HEIGHT : -GAP) + 50, p->title);
    svg_text(&g, EDGE, 30, "title", "start", p->title);
    svg_text(&g, EDGE, 52, "muted", "start", p->subtitle);
    draw_panel(&g, p, &loss);
    if (highest_score > 0)
        draw_panel(&g, p, &score);
    return svg_save(&g, path, err);
}
