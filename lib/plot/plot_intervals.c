#include "plot/plot_intervals.h"

#include "plot/svg.h"

enum { NAMES = 220, WIDTH = 300, GAP = 40, ROW = 38, TOP = 96, FOOT = 40, MARGIN = 24 };

static double axis_end(const struct plot_interval_column *c, int n) {
    double most = 0;
    for (int i = 0; i < n; i++)
        most = fmax(most, fmax(c->rows[i].value, c->rows[i].high)); /* fmax ignores NaN */
    return isfinite(c->most) ? c->most : most > 0 && isfinite(most) ? most : 1;
}

static void draw_axis(struct svg *g, const struct plot_interval_column *c, double x, double end, double bottom) {
    const double step = svg_step(end, 5);
    char text[32];
    svg_text(g, x, TOP - 20, "name", "start", c->name);
    for (int k = 0; k * step <= end * (1 + 1e-9); k++) {
        const double at = x + WIDTH * k * step / end;
        svg_line(g, at, TOP - 8, at, bottom, "grid");
        str_format(text, sizeof text, "%.6g", k * step);
        svg_text(g, at, bottom + 16, "tick", "middle", text);
    }
}

static void draw_row(struct svg *g, const struct plot_interval_column *c, int row, double x, double end) {
    const struct plot_interval *i = &c->rows[row];
    const double y = TOP + ROW * row + ROW / 2.0, scale = WIDTH / end;
    char text[96], class[24];
    if (!isfinite(i->value)) {
        svg_text(g, x, y + 4, "muted", "start", "not defined");
        return;
    }
    str_format(class, sizeof class, "line line%d", row % 8);
    if (isfinite(i->low) && isfinite(i->high))
        svg_line(g, x + i->low * scale, y, x + fmin(i->high, end) * scale, y, class);
    str_format(class, sizeof class, "key%d", row % 8);
    svg_rect(g, &(struct svg_box){x + fmin(i->value, end) * scale - 4, y - 4, 8, 8}, class, NULL);
    str_format(text, sizeof text, "%.*f (%.*f to %.*f)", c->digits, i->value, c->digits, i->low, c->digits, i->high);
    svg_text(g, x, y - 9, "tick", "start", text);
}

int plot_intervals(const char *path, const struct plot_intervals *p, struct err *err) {
    const double bottom = TOP + ROW * p->n;
    struct svg g;
    if (p->n < 1 || p->n > PLOT_MAX_INTERVALS || p->n_columns < 1 || p->n_columns > PLOT_MAX_INTERVAL_COLUMNS)
        return err_set(err, ERR_INVALID, "cannot plot %d rows of %d figures", p->n, p->n_columns);
    svg_open(&g, MARGIN + NAMES + p->n_columns * (WIDTH + GAP), bottom + FOOT, p->title);
    svg_text(&g, MARGIN, 30, "title", "start", p->title);
    svg_text(&g, MARGIN, 50, "muted", "start", p->subtitle);
    for (int i = 0; i < p->n; i++)
        svg_text(&g, MARGIN, TOP + ROW * i + ROW / 2.0 + 4, "name", "start", p->names[i]);
    for (int c = 0; c < p->n_columns; c++) {
        const double x = MARGIN + NAMES + c * (WIDTH + GAP), end = axis_end(&p->columns[c], p->n);
        draw_axis(&g, &p->columns[c], x, end, bottom);
        for (int i = 0; i < p->n; i++)
            draw_row(&g, &p->columns[c], i, x, end);
    }
    return svg_save(&g, path, err);
}
