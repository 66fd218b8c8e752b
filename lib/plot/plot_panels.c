#include "plot/plot_panels.h"

#include "plot/svg.h"

enum { COLUMNS = 3, WIDTH = 360, HEIGHT = 230, LEFT = 76, TOP = 96, GAP_X = 82, GAP_Y = 62, MAX_POINTS = 1500 };

/* Where one panel lies, and the ranges of its axes. */
struct frame {
    double x, y, low_x, high_x, low_y, high_y;
};

static double at_x(const struct frame *f, double x) { return f->x + WIDTH * (x - f->low_x) / (f->high_x - f->low_x); }
static double at_y(const struct frame *f, double y) {
    return f->y + HEIGHT - HEIGHT * fmin(fmax((y - f->low_y) / (f->high_y - f->low_y), 0), 1);
}

static void range_of(const struct plot_panels *p, double *low, double *high) {
    *low = INFINITY;
    *high = -INFINITY;
    for (int k = 0; k < p->n_panels; k++)
        for (int c = 0; c < p->panels[k].n_curves; c++)
            for (int64_t i = 0; i < p->n; i++) {
                double y = p->panels[k].curves[c].y[i];
                if (isfinite(y)) {
                    *low = fmin(*low, y);
                    *high = fmax(*high, y);
                }
            }
}

static void draw_axes(struct svg *g, const struct frame *f, const struct plot_panels *p, const char *title) {
    double step_x = svg_step(f->high_x - f->low_x, 5), step_y = svg_step(f->high_y - f->low_y, 5);
    char text[32];
    for (int64_t k = (int64_t)ceil(f->low_y / step_y - 1e-9); (double)k <= f->high_y / step_y + 1e-9; k++) {
        double y = (double)k * step_y;
        str_format(text, sizeof text, "%.6g", fabs(y) < 1e-9 * step_y ? 0 : y);
        svg_line(g, f->x, at_y(f, y), f->x + WIDTH, at_y(f, y), "grid");
        svg_text(g, f->x - 6, at_y(f, y) + 4, "tick", "end", text);
    }
    for (int64_t k = (int64_t)ceil(f->low_x / step_x - 1e-9); (double)k <= f->high_x / step_x + 1e-9; k++) {
        double x = (double)k * step_x;
        str_format(text, sizeof text, "%.6g", fabs(x) < 1e-9 * step_x ? 0 : x);
        svg_line(g, at_x(f, x), f->y + HEIGHT, at_x(f, x), f->y + HEIGHT + 4, "axis");
        svg_text(g, at_x(f, x), f->y + HEIGHT + 17, "tick", "middle", text);
    }
    svg_line(g, f->x, f->y + HEIGHT, f->x + WIDTH, f->y + HEIGHT, "axis");
    svg_text(g, f->x, f->y - 8, "name", "start", title);
    svg_text(g, f->x + WIDTH, f->y + HEIGHT + 32, "muted", "end", p->x_name);
    svg_text_up(g, f->x - 56, f->y + HEIGHT / 2.0, "muted", p->y_name);
}

static void draw_band(struct svg *g, const struct frame *f, const struct plot_panels *p, const struct plot_panel_curve *c,
                      int color, int64_t stride) {
    struct svg_path path;
    char class[24];
    bool started = false;
    str_format(class, sizeof class, "band key%d", color);
    svg_path_open(&path, g, class);
    for (int side = 0; side < 2; side++)
        for (int64_t k = 0; k < p->n; k += stride) {
            int64_t i = side ? (p->n - 1) / stride * stride - k : k;
            double y = c->y[i] + (side ? -c->spread[i] : c->spread[i]);
            if (!isfinite(y))
                continue;
            (started ? svg_path_line : svg_path_move)(&path, at_x(f, p->x[i]), at_y(f, y));
            started = true;
        }
    if (started)
        svg_path_shut(&path);
    svg_path_close(&path);
}

static void draw_curve(struct svg *g, const struct frame *f, const struct plot_panels *p, const struct plot_panel_curve *c,
                       int color, int64_t stride) {
    struct svg_path path;
    char class[24];
    bool started = false;
    str_format(class, sizeof class, "line line%d", color);
    svg_path_open(&path, g, class);
    for (int64_t i = 0; i < p->n; i += stride) {
        if (isfinite(c->y[i]))
            (started ? svg_path_line : svg_path_move)(&path, at_x(f, p->x[i]), at_y(f, c->y[i]));
        started = isfinite(c->y[i]);
    }
    svg_path_close(&path);
}

int plot_panels(const char *path, const struct plot_panels *p, struct err *err) {
    struct svg g;
    const char *names[PLOT_PANEL_CURVES];
    double low, high;
    if (p->n < 2 || p->n_panels < 1 || p->n_panels > PLOT_MAX_PANELS)
        return err_set(err, ERR_INVALID, "cannot plot %d panels of %lld points", p->n_panels, (long long)p->n);
    range_of(p, &low, &high);
    if (!(high >= low))
        return err_set(err, ERR_INVALID, "cannot plot curves without a value");
    double room = fmax((high - low) * 0.05, 1e-9 * fmax(fabs(high), 1e-300));
    int columns = p->n_panels < COLUMNS ? p->n_panels : COLUMNS, rows = (p->n_panels + columns - 1) / columns;
    double width = LEFT + columns * WIDTH + (columns - 1) * GAP_X + 30;
    int64_t stride = (p->n + MAX_POINTS - 1) / MAX_POINTS;
    svg_open(&g, width, TOP + rows * (HEIGHT + GAP_Y), p->title);
    svg_text(&g, LEFT, 30, "title", "start", p->title);
    if (p->subtitle)
        svg_text(&g, LEFT, 48, "muted", "start", p->subtitle);
    for (int c = 0; c < p->panels[0].n_curves; c++)
        names[c] = p->panels[0].curves[c].name;
    svg_legend(&g, LEFT, 67, names, p->panels[0].n_curves);
    for (int k = 0; k < p->n_panels; k++) {
        const struct plot_panel *panel = &p->panels[k];
        struct frame f = {.x = LEFT + k % columns * (WIDTH + GAP_X), .y = TOP + k / columns * (HEIGHT + GAP_Y)};
        f.low_x = p->x[0];
        f.high_x = p->x[p->n - 1];
        f.low_y = low - room;
        f.high_y = high + room;
        draw_axes(&g, &f, p, panel->title);
        for (int c = 0; c < panel->n_curves; c++)
            if (panel->curves[c].spread)
                draw_band(&g, &f, p, &panel->curves[c], c, stride);
        for (int c = 0; c < panel->n_curves; c++)
            draw_curve(&g, &f, p, &panel->curves[c], c, stride);
    }
    return svg_save(&g, path, err);
}
