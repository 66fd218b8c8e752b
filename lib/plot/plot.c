#include "plot/plot.h"

#include "base/order.h"
#include "plot/svg.h"

enum {
    LEFT = 112,
    WIDTH = PLOT_COLUMNS + LEFT + 64,
    TOP = 74,
    PROBABILITY_HEIGHT = 120,
    ROW = 24,
    BAR = 13,
    CHAIN_GAP = 8,
    CLOCK = 16,
    DAY_S = 86400,
    TRAINING_WIDTH = 760,
    TRAINING_TOP = 96,
    NAME_ROW = 20,
    TRAINING_HEIGHT = 300,
    MAX_TICKS = 12,
};

void plot_trace_init(struct plot_trace *t, const char *name, double duration_s, double rate_hz) {
    t->duration_s = duration_s;
    t->rate_hz = rate_hz;
    str_copy(t->name, sizeof t->name, name);
    for (int i = 0; i < PLOT_COLUMNS; i++) {
        t->low[i] = 1;
        t->high[i] = -1;
        t->sum[i] = 0;
        t->count[i] = 0;
    }
}

static bool is_empty(const struct plot_trace *t, int column) { return t->low[column] > t->high[column]; }

static double columns_per_sample(const struct plot_trace *t) { return PLOT_COLUMNS / (t->duration_s * t->rate_hz); }

int64_t plot_trace_until(const struct plot_trace *t, int64_t at) {
    const double per_sample = columns_per_sample(t);
    const int column = (int)((double)at * per_sample);
    int64_t until = (int64_t)((column + 1) / per_sample);
    until = until > at ? until : at + 1;
    while (until > at + 1 && (int)((double)(until - 1) * per_sample) > column)
        until--;
    while ((int)((double)until * per_sample) == column)
        until++;
    return until;
}

static bool is_shown(const struct plot_trace *t, int64_t at) {
    return at >= 0 && (double)at * columns_per_sample(t) < PLOT_COLUMNS;
}

void plot_trace_extend(struct plot_trace *t, int64_t at, float low, float high) {
    if (!is_shown(t, at) || low > high)
        return;
    const int column = (int)((double)at * columns_per_sample(t));
    const bool empty = is_empty(t, column);
    t->low[column] = empty || low < t->low[column] ? low : t->low[column];
    t->high[column] = empty || high > t->high[column] ? high : t->high[column];
}

void plot_trace_add(struct plot_trace *t, int64_t first, const float *values, int64_t n) {
    for (int64_t i = first < 0 ? -first : 0, until; i < n && is_shown(t, first + i); i = until) {
        const int64_t at = first + i;
        const int column = (int)((double)at * columns_per_sample(t));
        float low = INFINITY, high = -INFINITY;
        until = plot_trace_until(t, at) - first;
        until = until < n ? until : n;
        for (; i < until; i++) {
            if (isnan(values[i]))
                continue;
            low = values[i] < low ? values[i] : low;
            high = values[i] > high ? values[i] : high;
            t->sum[column] += (double)values[i];
            t->count[column]++;
        }
        plot_trace_extend(t, at, low, high);
    }
}

/* Where values go: y = zero − value·scale, kept within [top, bottom]. */
struct scale {
    double zero, scale, top, bottom;
};

static double place(const struct scale *s, double value) { return fmin(fmax(s->zero - value * s->scale, s->top), s->bottom); }

/* Columns that hold samples, as one closed shape each run: along the maxima and back along the minima (or the zero line). */
static void draw_envelope(struct svg *g, const struct plot_trace *t, const struct scale *s, const char *class, bool to_zero) {
    struct svg_path p;
    svg_path_open(&p, g, class);
    for (int i = 0; i < PLOT_COLUMNS;) {
        int start = i;
        while (i < PLOT_COLUMNS && !is_empty(t, i))
            i++;
        for (int k = start; k < i; k++)
            (k == start ? svg_path_move : svg_path_line)(&p, LEFT + k + 0.5, place(s, (double)t->high[k]));
        if (to_zero && i > start) {
            svg_path_line(&p, LEFT + i - 0.5, s->zero);
            svg_path_line(&p, LEFT + start + 0.5, s->zero);
        }
        for (int k = i - 1; !to_zero && k >= start; k--)
            svg_path_line(&p, LEFT + k + 0.5, place(s, (double)t->low[k]));
        if (i > start)
            svg_path_shut(&p);
        i += i == start;
    }
    svg_path_close(&p);
}

static void draw_mean(struct svg *g, const struct plot_trace *t, const struct scale *s, const char *class) {
    struct svg_path p;
    svg_path_open(&p, g, class);
    for (int i = 0; i < PLOT_COLUMNS; i++)
        if (!is_empty(t, i))
            (i == 0 || is_empty(t, i - 1) ? svg_path_move : svg_path_line)(&p, LEFT + i + 0.5,
                                                                           place(s, t->sum[i] / (double)t->count[i]));
    svg_path_close(&p);
}

/* x of a time. */
static double at_time(const struct plot_recording *r, double seconds) {
    return LEFT + PLOT_COLUMNS * fmin(fmax(seconds / r->duration_s, 0), 1);
}

/* Events as bars from y on. */
struct bars {
    const struct plot_span *spans;
    int n;
    double y, height;
    const char *class;
};

static void draw_bars(struct svg *g, const struct plot_recording *r, const struct bars *b) {
    bool tips = b->height <= ROW;
    for (int i = 0; i < b->n; i++) {
        const struct plot_span *s = &b->spans[i];
        char from[32], to[32], tip[96];
        svg_time(from, sizeof from, s->onset_s, 1);
        svg_time(to, sizeof to, s->end_s, 1);
        str_format(tip, sizeof tip, "%s to %s, %.1f s", from, to, s->end_s - s->onset_s);
        double x = at_time(r, s->onset_s);
        svg_rect(g, &(struct svg_box){x, b->y, at_time(r, s->end_s) - x, b->height}, b->class, tips ? tip : NULL);
    }
}

/* Half the range that 98 % of all columns keep, so that one artefact does not flatten the rest. */
static double usual_amplitude(const struct plot_recording *r) {
    float *ranges = malloc((size_t)r->n_channels * PLOT_COLUMNS * sizeof *ranges);
    size_t n = 0;
    for (int c = 0; ranges && c < r->n_channels; c++)
        for (int i = 0; i < PLOT_COLUMNS; i++)
            if (!is_empty(r->channels[c], i))
                ranges[n++] = fmaxf(fabsf(r->channels[c]->low[i]), fabsf(r->channels[c]->high[i]));
    SORT(ranges, n, order_f32s);
    double amplitude = n ? (double)ranges[(n - 1) * 98 / 100] : 0;
    free(ranges);
    return amplitude > 0 ? amplitude : 1;
}

static double channel_height(const struct plot_recording *r) { return r->n_channels <= 8 ? 40 : 320.0 / r->n_channels; }

/* True if bipolar channel c begins a chain: its first electrode is not the second one of the channel above ("Fp1-F7", "F7-T3").
 * Channels with one reference ("F7-REF", "T3-REF") have no chains. */
static bool begins_chain(const struct plot_recording *r, int c) {
    const char *above = c ? strchr(r->channels[c - 1]->name, '-') : NULL, *dash = strchr(r->channels[c]->name, '-');
    if (!above || !dash || !strcmp(above, dash))
        return false;
    size_t len = (size_t)(dash - r->channels[c]->name);
    return strlen(above + 1) != len || strncmp(above + 1, r->channels[c]->name, len) != 0;
}

/* Height of the gaps above channel c; of all for n_channels. */
static double chain_gaps(const struct plot_recording *r, int c) {
    double gaps = 0;
    for (int i = 1; i <= c && i < r->n_channels; i++)
        gaps += begins_chain(r, i) ? CHAIN_GAP : 0;
    return gaps;
}

static void draw_channels(struct svg *g, const struct plot_recording *r) {
    double height = channel_height(r), amplitude = r->n_channels ? usual_amplitude(r) : 1, scale = 0.5 * height / amplitude;
    for (int c = 0; c < r->n_channels; c++) {
        double middle = TOP + (c + 0.5) * height + chain_gaps(r, c);
        struct scale s = {middle, scale, middle - 0.75 * height, middle + 0.75 * height};
        svg_text(g, LEFT - 10, middle + 4, "name", "end", r->channels[c]->name);
        draw_envelope(g, r->channels[c], &s, "eeg", false);
    }
    if (!r->n_channels)
        return;
    double bar = svg_step(2 * amplitude, 2), x = LEFT + PLOT_COLUMNS + 10, top = TOP + 0.5 * height - 0.5 * bar * scale;
    char text[32];
    str_format(text, sizeof text, "%g µV", bar);
    svg_line(g, x, top, x, top + bar * scale, "axis");
    svg_text(g, x + 6, TOP + 0.5 * height + 4, "tick", "start", text);
}

static void draw_probability(struct svg *g, const struct plot_recording *r, double top) {
    double bottom = top + PROBABILITY_HEIGHT;
    struct scale s = {bottom, PROBABILITY_HEIGHT, top, bottom};
    for (int i = 0; i <= 2; i++) {
        char text[8];
        str_format(text, sizeof text, "%g", 0.5 * i);
        svg_line(g, LEFT, place(&s, 0.5 * i), LEFT + PLOT_COLUMNS, place(&s, 0.5 * i), "grid");
        svg_text(g, LEFT - 10, place(&s, 0.5 * i) + 4, "tick", "end", text);
    }
    svg_text(g, LEFT - 34, top + 0.25 * PROBABILITY_HEIGHT + 4, "name", "end", "seizure");
    svg_text(g, LEFT - 34, top + 0.25 * PROBABILITY_HEIGHT + 18, "name", "end", "probability");
    draw_envelope(g, r->probability, &s, "area", true);
    draw_mean(g, r->probability, &s, "curve");
    if (r->on > 0)
        svg_line(g, LEFT, place(&s, r->on), LEFT + PLOT_COLUMNS, place(&s, r->on), "on");
    if (r->off > 0 && r->off < r->on)
        svg_line(g, LEFT, place(&s, r->off), LEFT + PLOT_COLUMNS, place(&s, r->off), "off");
}

static void draw_time_axis(struct svg *g, const struct plot_recording *r, double top, double bottom) {
    double step = svg_time_step(r->duration_s, MAX_TICKS);
    svg_line(g, LEFT, bottom, LEFT + PLOT_COLUMNS, bottom, "axis");
    for (int i = 0; i * step <= r->duration_s * (1 + 1e-9); i++) {
        char text[32];
        double x = at_time(r, i * step);
        svg_time(text, sizeof text, i * step, step);
        svg_line(g, x, top, x, bottom, "grid");
        svg_line(g, x, bottom, x, bottom + 5, "axis");
        svg_text(g, x, bottom + 19, "tick", "middle", text);
    }
}

/* "14:05" or, where ticks are closer, "14:05:30" below the ticks. */
static void draw_clock(struct svg *g, const struct plot_recording *r, double bottom) {
    double step = svg_time_step(r->duration_s, MAX_TICKS);
    svg_text(g, LEFT - 36, bottom + 35, "tick", "end", "clock");
    for (int i = 0; i * step <= r->duration_s * (1 + 1e-9); i++) {
        char text[32];
        int64_t second = (int64_t)(r->clock_s + i * step) % DAY_S;
        str_format(text, sizeof text, step < 60 ? "%02d:%02d:%02d" : "%02d:%02d", (int)(second / 3600), (int)(second / 60 % 60),
                   (int)(second % 60));
        svg_text(g, at_time(r, i * step), bottom + 35, "tick", "middle", text);
    }
}

static void draw_row(struct svg *g, double y, const char *name) {
    svg_text(g, LEFT - 10, y + 11, "name", "end", name);
    svg_rect(g, &(struct svg_box){LEFT, y, PLOT_COLUMNS, BAR}, "track", NULL);
}

static void draw_alarms(struct svg *g, const struct plot_recording *r, double y) {
    for (int i = 0; i < r->n_alarms; i++) {
        char when[32];
        double x = at_time(r, r->alarms_s[i]);
        svg_time(when, sizeof when, r->alarms_s[i], 1);
        str_printf(&g->out, "<path class=\"alarm\" d=\"M%.1f %.1fl5 %dh-10z\"><title>alarm at %s</title></path>\n", x, y, BAR,
                   when);
    }
}

static int check_recording(const struct plot_recording *r, struct err *err) {
    if (!(r->duration_s > 0 && r->duration_s < 1e9))
        return err_set(err, ERR_INVALID, "cannot plot a recording of %g s; expected a positive duration", r->duration_s);
    if (r->n_channels > PLOT_MAX_CHANNELS)
        return err_set(err, ERR_INVALID, "cannot plot %d channels; expected at most %d", r->n_channels, PLOT_MAX_CHANNELS);
    if (r->n_detected > PLOT_MAX_SPANS || r->n_reference > PLOT_MAX_SPANS || r->n_alarms > PLOT_MAX_SPANS)
        return err_set(err, ERR_INVALID, "cannot plot %d detected and %d reference events and %d alarms; expected at most %d each",
                       r->n_detected, r->n_reference, r->n_alarms, PLOT_MAX_SPANS);
    return 0;
}

static void draw_heading(struct svg *g, const char *title, const char *subtitle) {
    svg_text(g, LEFT, 30, "title", "start", title);
    if (subtitle)
        svg_text(g, LEFT, 50, "muted", "start", subtitle);
}

/* Swatches at the top right, written from the right. */
static void draw_legend(struct svg *g, const struct plot_recording *r) {
    double x = LEFT + PLOT_COLUMNS;
    char on[48];
    str_format(on, sizeof on, "on %.3g", r->on);
    if (r->has_alarms || r->n_alarms) {
        svg_text(g, x, 30, "muted", "end", "alarm");
        str_printf(&g->out, "<path class=\"alarm\" d=\"M%.1f 20l5 11h-10z\"/>\n", x - 44);
        x -= 66;
    }
    svg_text(g, x, 30, "muted", "end", "detected");
    svg_rect(g, &(struct svg_box){x - 70, 20, 12, 10}, "detected", NULL);
    x -= 92;
    if (r->has_reference) {
        svg_text(g, x, 30, "muted", "end", "true");
        svg_rect(g, &(struct svg_box){x - 42, 20, 12, 10}, "reference", NULL);
        x -= 64;
    }
    if (r->probability && r->on > 0) {
        svg_text(g, x, 30, "muted", "end", on);
        svg_line(g, x - 80, 26, x - 58, 26, "on");
    }
}

int plot_recording(const char *path, const struct plot_recording *r, struct err *err) {
    struct svg g;
    int rc = check_recording(r, err);
    if (rc)
        return rc;
    bool alarms = r->has_alarms || r->n_alarms;
    double probability = TOP + r->n_channels * channel_height(r) + chain_gaps(r, r->n_channels) + (r->n_channels ? 14 : 0);
    double rows = probability + (r->probability ? PROBABILITY_HEIGHT + 14 : 0), y = rows;
    double bottom = rows + ROW * (1 + r->has_reference + alarms + (r->suppression != NULL)) + 2;
    char label[128];
    str_format(label, sizeof label, "EEG recording of %.0f s: %d detected and %d true events", r->duration_s, r->n_detected,
               r->n_reference);
    svg_open(&g, WIDTH, bottom + 34 + (r->has_clock ? CLOCK : 0), label);
    draw_heading(&g, r->title, r->subtitle);
    draw_legend(&g, r);
    draw_time_axis(&g, r, TOP, bottom);
    if (r->has_clock)
        draw_clock(&g, r, bottom);
    draw_channels(&g, r);
    if (r->probability)
        draw_probability(&g, r, probability);
    draw_bars(&g, r, &(struct bars){r->reference, r->n_reference, TOP, rows - TOP - 7, "shade"});
    if (r->has_reference) {
        draw_row(&g, y, "true");
        draw_bars(&g, r, &(struct bars){r->reference, r->n_reference, y, BAR, "reference"});
        y += ROW;
    }
    draw_row(&g, y, "detected");
    draw_bars(&g, r, &(struct bars){r->detected, r->n_detected, y, BAR, "detected"});
    y += ROW;
    if (alarms) {
        draw_row(&g, y, "alarms");
        draw_alarms(&g, r, y);
        y += ROW;
    }
    if (r->suppression) {
        struct scale s = {y + BAR, BAR, y, y + BAR};
        draw_row(&g, y, "suppression");
        draw_envelope(&g, r->suppression, &s, "area", true);
        draw_mean(&g, r->suppression, &s, "curve");
    }
    return svg_save(&g, path, err);
}

/* A curve as the mean of its points in each column. */
static void draw_curve(struct svg *g, const struct plot_curve *c, double last_x, const struct scale *s, int color) {
    char class[24];
    struct svg_path p;
    int points = 0;
    str_format(class, sizeof class, "line line%d", color % 8);
    svg_path_open(&p, g, class);
    for (int i = 0; i < c->n;) {
        int64_t column = (int64_t)(TRAINING_WIDTH * c->points[i].x / last_x);
        double x = 0, y = 0, n = 0;
        for (; i < c->n && (int64_t)(TRAINING_WIDTH * c->points[i].x / last_x) == column; i++)
            if (isfinite(c->points[i].y)) {
                x += c->points[i].x;
                y += c->points[i].y;
                n++;
            }
        if (n == 0)
            continue;
        (points++ ? svg_path_line : svg_path_move)(&p, LEFT + TRAINING_WIDTH * x / n / last_x, place(s, y / n));
    }
    if (points == 1)
        svg_path_line(&p, (double)p.x / 10 - 4, (double)p.y / 10); /* a lone point is seen too */
    svg_path_close(&p);
}

/* Largest finite value, y or x, of the curves. */
static double largest(const struct plot_curve *curves, int n, bool of_x) {
    double value = 0;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < curves[i].n; k++) {
            double candidate = of_x ? curves[i].points[k].x : curves[i].points[k].y;
            if (isfinite(candidate))
                value = fmax(value, candidate);
        }
    return value;
}

static void draw_training_axes(struct svg *g, const struct plot_training *t, double last_x, double step_y, double top_y) {
    double bottom = TRAINING_TOP + TRAINING_HEIGHT, right = LEFT + TRAINING_WIDTH, step_x = svg_step(last_x, 8);
    char text[32];
    for (int i = 0; i * step_y <= top_y * (1 + 1e-9); i++) {
        double y = bottom - TRAINING_HEIGHT * (i * step_y / top_y);
        svg_line(g, LEFT, y, right, y, "grid");
        str_format(text, sizeof text, "%g", i * step_y);
        svg_text(g, LEFT - 8, y + 4, "tick", "end", text);
    }
    for (int i = 0; t->n_scores && t->n_losses && i <= 5; i++) {
        str_format(text, sizeof text, "%g", 0.2 * i);
        svg_text(g, right + 8, bottom - TRAINING_HEIGHT * 0.2 * i + 4, "tick", "start", text);
    }
    for (int i = 0; i * step_x <= last_x * (1 + 1e-9); i++) {
        double x = LEFT + TRAINING_WIDTH * i * step_x / last_x;
        str_format(text, sizeof text, "%.7g", i * step_x);
        svg_line(g, x, bottom, x, bottom + 5, "axis");
        svg_text(g, x, bottom + 19, "tick", "middle", text);
    }
    svg_line(g, LEFT, bottom, right, bottom, "axis");
    svg_text(g, LEFT + TRAINING_WIDTH / 2, bottom + 38, "muted", "middle", t->x_name ? t->x_name : "step");
    svg_text(g, LEFT - 8, TRAINING_TOP - 18, "muted", "end", t->n_losses ? "loss" : "score");
    if (t->n_scores && t->n_losses)
        svg_text(g, right + 8, TRAINING_TOP - 18, "muted", "start", "score");
}

/* A square at each point of a curve, with its numbers as a tooltip. */
static void draw_marks(struct svg *g, const struct plot_curve *c, double last_x, const struct scale *s, int color) {
    char class[24], tip[120];
    str_format(class, sizeof class, "key%d", color % 8);
    for (int i = 0; i < c->n; i++) {
        const double x = LEFT + TRAINING_WIDTH * c->points[i].x / last_x, y = place(s, c->points[i].y);
        str_format(tip, sizeof tip, "%.60s at %g: %.3f", c->name, c->points[i].x, c->points[i].y);
        if (isfinite(c->points[i].y))
            svg_rect(g, &(struct svg_box){x - 3, y - 3, 6, 6}, class, tip);
    }
}

static bool has_points(const struct plot_curve *c) {
    for (int i = 0; i < c->n; i++)
        if (isfinite(c->points[i].y))
            return true;
    return false;
}

/* The names of the curves from y down, in rows as wide as the axes; returns how many rows. g: NULL to count alone. */
static int draw_names(struct svg *g, const struct plot_training *t, double y) {
    double x = LEFT + 10;
    int rows = 1;
    for (int i = 0; i < t->n_losses + t->n_scores; i++) {
        char class[24];
        const struct plot_curve *curve = i < t->n_losses ? &t->losses[i] : &t->scores[i - t->n_losses];
        double width = 48 + 6.6 * (double)strlen(curve->name);
        if (!has_points(curve))
            continue;
        if (x > LEFT + 10 && x + width > LEFT + TRAINING_WIDTH) {
            x = LEFT + 10;
            y += NAME_ROW;
            rows++;
        }
        str_format(class, sizeof class, "line line%d", i % 8);
        if (g) {
            svg_line(g, x, y, x + 18, y, class);
            svg_text(g, x + 24, y + 4, "muted", "start", curve->name);
        }
        x += width;
    }
    return rows;
}

int plot_training(const char *path, const struct plot_training *t, struct err *err) {
    double last_x = fmax(largest(t->losses, t->n_losses, true), largest(t->scores, t->n_scores, true));
    double top_y = largest(t->losses, t->n_losses, false), bottom = TRAINING_TOP + TRAINING_HEIGHT;
    if (!(last_x > 0))
        return err_set(err, ERR_INVALID, "cannot plot a training without a step");
    top_y = top_y > 0 ? top_y : 1;
    double step_y = svg_step(top_y, 6);
    top_y = ceil(top_y / step_y - 1e-9) * step_y;
    int rows = draw_names(NULL, t, 0); /* one is above the axes, more are below */
    struct svg g;
    svg_open(&g, LEFT + TRAINING_WIDTH + 60, bottom + 52 + (rows > 1 ? rows * NAME_ROW : 0),
             t->x_name ? t->title : "course of a training: loss and scores over steps");
    draw_heading(&g, t->title, t->subtitle);
    draw_training_axes(&g, t, last_x, step_y, top_y);
    draw_names(&g, t, rows > 1 ? bottom + 60 : TRAINING_TOP - 18);
    struct scale loss = {bottom, TRAINING_HEIGHT / top_y, TRAINING_TOP, bottom},
                 score = {bottom, TRAINING_HEIGHT, TRAINING_TOP, bottom};
    if (t->best_step >= 0) {
        double x = LEFT + TRAINING_WIDTH * t->best_step / last_x;
        svg_line(&g, x, TRAINING_TOP, x, bottom, "best");
        bool at_end = t->best_step > 0.9 * last_x;
        svg_text(&g, at_end ? x - 5 : x + 5, bottom - 8, "tick", at_end ? "end" : "start", "best");
    }
    for (int i = 0; i < t->n_losses; i++)
        draw_curve(&g, &t->losses[i], last_x, &loss, i);
    for (int i = 0; i < t->n_scores; i++)
        draw_curve(&g, &t->scores[i], last_x, &score, t->n_losses + i);
    for (int i = 0; i < t->n_scores && !t->n_losses; i++)
        draw_marks(&g, &t->scores[i], last_x, &score, i);
    return svg_save(&g, path, err);
}
