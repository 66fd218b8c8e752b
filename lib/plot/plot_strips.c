#include "plot/plot_strips.h"

#include "plot/svg.h"

enum { LEFT = 46, RIGHT = 16, TOP = 44, WIDE = 900, HIGH = 92, GAP = 34, BOTTOM = 30, BINS = 450 };

/* The picture under construction. */
struct drawing {
    const struct plot_strips *p;
    struct svg svg;
    int64_t bins;
};

/* The mean of a column over the rows of a bin; NaN without one. */
static double bin_mean(const struct drawing *d, int64_t bin, int column) {
    const struct plot_strips *p = d->p;
    double sum = 0;
    int64_t n = 0;
    for (int64_t i = bin * p->n / d->bins; i < (bin + 1) * p->n / d->bins; i++)
        if (isfinite(p->values[i * p->columns + column])) {
            sum += p->values[i * p->columns + column];
            n++;
        }
    return n ? sum / (double)n : NAN;
}

static double x_of_bin(const struct drawing *d, int64_t bin) { return LEFT + WIDE * (double)bin / (double)d->bins; }

/* Height of a value above the foot of the strip, 0 to HIGH. */
static double height_of(const struct plot_strip *s, double v) {
    const double share = s->kind != PLOT_STRIP_BANDS ? (v - s->low) / (s->high - s->low)
                         : v <= 10                   ? v / 20
                                                     : 0.5 + log10(v / 10) / 2;
    return HIGH * fmin(1, fmax(0, share));
}

static void draw_axis(struct drawing *d, const struct plot_strip *s, double foot) {
    static const double margins[] = {5, 10, 25, 50, 100};
    char text[32];
    const int n = s->kind == PLOT_STRIP_BANDS ? 5 : 3;
    svg_text(&d->svg, LEFT, foot - HIGH - 8, "name", "start", s->title);
    for (int i = 0; i < n; i++) {
        const double v = s->kind == PLOT_STRIP_BANDS ? margins[i] : s->low + (s->high - s->low) * i / 2,
                     at = s->kind == PLOT_STRIP_MAP ? HIGH * i / 2.0 : height_of(s, v);
        snprintf(text, sizeof text, "%.4g", s->kind == PLOT_STRIP_MAP ? i * s->n / 2.0 : v);
        svg_text(&d->svg, LEFT - 6, foot - at + 4, "tick", "end", text);
        svg_line(&d->svg, LEFT, foot - at, LEFT + WIDE, foot - at, "grid");
    }
    if (s->names)
        svg_legend(&d->svg, LEFT + WIDE - 110 * (s->kind == PLOT_STRIP_BANDS ? s->n / 2 : s->n), foot - HIGH - 8, s->names,
                   s->kind == PLOT_STRIP_BANDS ? s->n / 2 : s->n);
}

static void draw_strip_curve(struct drawing *d, const struct plot_strip *s, double foot, int column, int style) {
    struct svg_path path;
    char class[24];
    bool on = false;
    snprintf(class, sizeof class, "line line%d", style);
    svg_path_open(&path, &d->svg, class);
    for (int64_t bin = 0; bin < d->bins; bin++) {
        const double v = bin_mean(d, bin, column), y = foot - height_of(s, v);
        if (isfinite(v)) {
            if (!on)
                svg_path_move(&path, x_of_bin(d, bin), y);
            svg_path_line(&path, x_of_bin(d, bin), y);
            svg_path_line(&path, x_of_bin(d, bin + 1), y);
        }
        on = isfinite(v);
    }
    svg_path_close(&path);
}

static void draw_strip_band(struct drawing *d, const struct plot_strip *s, double foot, int pair) {
    char class[24];
    snprintf(class, sizeof class, "key%d band", pair);
    for (int64_t bin = 0; bin < d->bins; bin++) {
        const double low = height_of(s, bin_mean(d, bin, s->columns[2 * pair])),
                     high = height_of(s, bin_mean(d, bin, s->columns[2 * pair + 1]));
        if (isfinite(bin_mean(d, bin, s->columns[2 * pair])))
            svg_rect(&d->svg, &(struct svg_box){x_of_bin(d, bin), foot - high, x_of_bin(d, bin + 1) - x_of_bin(d, bin), high - low},
                     class, NULL);
    }
    draw_strip_curve(d, s, foot, s->columns[2 * pair], pair);
    draw_strip_curve(d, s, foot, s->columns[2 * pair + 1], pair);
}

static void draw_strip_map(struct drawing *d, const struct plot_strip *s, double foot) {
    const double high = (double)HIGH / s->n;
    for (int k = 0; k < s->n; k++)
        for (int64_t bin = 0; bin < d->bins; bin++) {
            const double v = bin_mean(d, bin, s->columns[k]), share = fmin(1, fmax(0, (v - s->low) / (s->high - s->low)));
            if (isfinite(v)) /* from white over blue to dark */
                str_printf(&d->svg.out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"#%02x%02x%02x\"/>\n",
                           x_of_bin(d, bin), foot - (k + 1) * high, x_of_bin(d, bin + 1) - x_of_bin(d, bin) + 0.3, high + 0.3,
                           (unsigned)lrint(247 - 239 * share), (unsigned)lrint(251 - 203 * share),
                           (unsigned)lrint(255 - 148 * share));
        }
}

static void draw_times(struct drawing *d, double foot) {
    const double seconds = d->p->step_s * (double)d->p->n, step = svg_time_step(seconds, 10);
    char text[32];
    for (int i = 0; i * step <= seconds; i++) {
        const double at = i * step;
        svg_time(text, sizeof text, at, step);
        svg_text(&d->svg, LEFT + WIDE * at / seconds, foot + 18, "tick", "middle", text);
    }
}

int plot_strips_draw(const char *path, const struct plot_strips *p, struct err *err) {
    if (p->n < 1 || p->n_strips < 1 || p->n_strips > PLOT_MAX_STRIPS)
        return err_set(err, ERR_INVALID, "%s is not written: there is nothing to draw in %d strips", path, p->n_strips);
    struct drawing d = {.p = p, .bins = p->n < BINS ? p->n : BINS};
    double foot = TOP;
    svg_open(&d.svg, LEFT + WIDE + RIGHT, TOP + p->n_strips * (HIGH + GAP) + BOTTOM, p->title);
    svg_text(&d.svg, LEFT, 24, "title", "start", p->title);
    for (int i = 0; i < p->n_strips; i++) {
        const struct plot_strip *s = &p->strips[i];
        foot += HIGH + GAP;
        if (s->kind == PLOT_STRIP_MAP)
            draw_strip_map(&d, s, foot);
        draw_axis(&d, s, foot);
        for (int k = 0; k < s->n && s->kind == PLOT_STRIP_CURVES; k++)
            draw_strip_curve(&d, s, foot, s->columns[k], k);
        for (int k = 0; k < s->n / 2 && s->kind == PLOT_STRIP_BANDS; k++)
            draw_strip_band(&d, s, foot, k);
    }
    draw_times(&d, foot);
    return svg_save(&d.svg, path, err);
}
