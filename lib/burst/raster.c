#include "burst/raster.h"

#include "plot/svg.h"

enum {
    LEFT = 138,
    WIDTH = RASTER_COLUMNS,
    RIGHT = 36,
    TOP = 92,
    RATE_HEIGHT = 130,
    GAP = 46,
    FEWEST_ROWS = 8,                                                 /* of a sampled band */
    MOST_ROWS = RASTER_ROWS + RASTER_MOST_AREAS * (FEWEST_ROWS + 1), /* after rounding */
    NAME_LETTERS = 18,
    LINE_HEIGHT = 13,
    LEVELS = 4,
};

/* One area, or all small areas together: its rows in the picture and its spikes. */
struct band {
    char name[CONNECTOME_NAME_SIZE];
    int64_t members;
    int first_row, rows;
    int64_t fired[RASTER_COLUMNS];
};

struct raster {
    struct raster_network network;
    int columns;
    int band_of[CONNECTOME_MOST_AREAS]; /* by area */
    struct band bands[RASTER_MOST_AREAS];
    int n_bands, rows;
    uint32_t sample[MOST_ROWS]; /* the neurons that are drawn, ascending */
    int row_of[MOST_ROWS];      /* of each */
    bool fires[MOST_ROWS];      /* of each: it has fired; else a neighbour that fires takes its row */
    uint32_t spikes[MOST_ROWS][RASTER_COLUMNS];
};

/* ---- bands and rows -------------------------------------------------------------------------------------------- */

/* How many areas have more neurons, or as many and a lower index. */
static int rank_of(const int64_t *members, int n, int area) {
    int rank = 0;
    for (int i = 0; i < n; i++)
        rank += members[i] > members[area] || (members[i] == members[area] && i < area);
    return rank;
}

/* Areas with neurons become bands in their order; the last band holds all small ones where there are too many. */
static void make_bands(struct raster *r, const int64_t *members) {
    const struct raster_network *n = &r->network;
    int filled = 0, others = 0;
    for (int i = 0; i < n->n_areas; i++)
        filled += members[i] > 0;
    bool many = filled > RASTER_MOST_AREAS;
    for (int i = 0; i < n->n_areas; i++) {
        if (!members[i])
            continue;
        bool other = many && rank_of(members, n->n_areas, i) >= RASTER_MOST_AREAS - 1;
        int at = other ? RASTER_MOST_AREAS - 1 : r->n_bands++;
        r->band_of[i] = at;
        r->bands[at].members += members[i];
        if (!other)
            str_copy(r->bands[at].name, sizeof r->bands[at].name, n->areas[i].name);
        others += other;
    }
    if (many)
        str_format(r->bands[r->n_bands++].name, CONNECTOME_NAME_SIZE, "%d other areas", others);
}

static void make_rows(struct raster *r) {
    bool sampled = r->network.neurons > RASTER_ROWS;
    for (int i = 0; i < r->n_bands; i++) {
        struct band *b = &r->bands[i];
        int64_t share = sampled ? llround((double)b->members / (double)r->network.neurons * RASTER_ROWS) : b->members;
        int64_t least = b->members < FEWEST_ROWS ? b->members : FEWEST_ROWS;
        b->rows = (int)(share > least ? share : least);
        b->first_row = r->rows;
        r->rows += b->rows;
    }
}

/* Of the m neurons of a band the ones in the middle of k equal parts. */
static void choose_sample(struct raster *r) {
    int64_t seen[RASTER_MOST_AREAS] = {0};
    int taken[RASTER_MOST_AREAS] = {0}, n = 0;
    for (int64_t i = 0; i < r->network.neurons; i++) {
        int at = r->band_of[r->network.area_of[i]];
        const struct band *b = &r->bands[at];
        int64_t next = taken[at] < b->rows ? (2 * taken[at] + 1) * b->members / (2 * b->rows) : -1;
        if (seen[at]++ != next)
            continue;
        r->sample[n] = (uint32_t)i;
        r->row_of[n++] = b->first_row + taken[at]++;
    }
}

int raster_new(const struct raster_network *network, struct raster **ret, struct err *err) {
    if (network->neurons < 1 || network->ticks < 1 || network->n_areas < 1 || network->n_areas > CONNECTOME_MOST_AREAS)
        return err_set(err, ERR_INVALID, "cannot plot %lld neurons in %d areas over %lld ticks", (long long)network->neurons,
                       network->n_areas, (long long)network->ticks);
    struct raster *r = calloc(1, sizeof *r);
    int64_t *members = calloc((size_t)network->n_areas, sizeof *members);
    if (!r || !members) {
        free(r);
        free(members);
        return err_set(err, ERR_EXHAUSTED, "out of memory for a plot of spikes");
    }
    r->network = *network;
    r->columns = network->ticks < RASTER_COLUMNS ? (int)network->ticks : RASTER_COLUMNS;
    for (int64_t i = 0; i < network->neurons; i++)
        members[network->area_of[i]]++;
    make_bands(r, members);
    make_rows(r);
    choose_sample(r);
    free(members);
    *ret = r;
    return 0;
}

void raster_free(struct raster *r) { free(r); }

/* A neuron that is not drawn fires: it takes the row of a silent one of its band beside it, so that the sample stays in order. k:
 * the first of the sample behind it. Returns its place in the sample, -1 when both neighbours fire. */
static int raster_row_for(struct raster *r, uint32_t id, int k) {
    const int band = r->band_of[r->network.area_of[id]];
    for (int at = k; at >= k - 1; at--)
        if (at >= 0 && at < r->rows && !r->fires[at] && r->band_of[r->network.area_of[r->sample[at]]] == band) {
            r->sample[at] = id;
            return at;
        }
    return -1;
}

void raster_add(struct raster *r, int64_t tick, const uint32_t *ids, int64_t n) {
    int64_t at = tick - r->network.first_tick;
    if (at < 0 || at >= r->network.ticks)
        return;
    int column = (int)((double)at * r->columns / (double)r->network.ticks), k = 0;
    for (int64_t i = 0; i < n && ids[i] < r->network.neurons; i++) {
        r->bands[r->band_of[r->network.area_of[ids[i]]]].fired[column]++;
        while (k < r->rows && r->sample[k] < ids[i])
            k++;
        const int at_row = k < r->rows && r->sample[k] == ids[i] ? k : raster_row_for(r, ids[i], k);
        if (at_row < 0)
            continue;
        r->fires[at_row] = true;
        r->spikes[r->row_of[at_row]][column]++;
    }
}

/* ---- drawing --------------------------------------------------------------------------------------------------- */

/* Where things lie: rows from TOP, then the rates. */
struct layout {
    double row, column;                     /* height and width */
    double bottom;                          /* of the rows */
    double rates, rates_bottom, step, most; /* grid and top of the scale of the rates, in percent */
};

static double at_tick(const struct raster *r, double tick) {
    return LEFT + WIDTH * (tick - (double)r->network.first_tick + 0.5) / (double)r->network.ticks;
}

/* Ticks that share a column. */
static double ticks_of(const struct raster *r, int column) {
    double each = (double)r->network.ticks / r->columns;
    return ceil((column + 1) * each - 1e-9) - ceil(column * each - 1e-9);
}

static double rate_of(const struct raster *r, const struct band *b, int column) {
    return 100.0 * (double)b->fired[column] / (ticks_of(r, column) * (double)b->members);
}

static struct layout lay_out(const struct raster *r) {
    struct layout l = {.row = fmax(fmin(12, RASTER_ROWS / (double)r->rows), 48.0 / r->rows), .column = (double)WIDTH / r->columns};
    l.row = r->rows > RASTER_ROWS ? 1 : l.row;
    l.bottom = TOP + r->rows * l.row;
    l.rates = l.bottom + GAP;
    l.rates_bottom = l.rates + RATE_HEIGHT;
    for (int i = 0; i < r->n_bands; i++)
        for (int c = 0; c < r->columns; c++)
            l.most = fmax(l.most, rate_of(r, &r->bands[i], c));
    l.most = l.most > 0 ? l.most : 1;
    l.step = svg_step(l.most, 4);
    l.most = ceil(l.most / l.step - 1e-9) * l.step;
    return l;
}

/* 1234567 as "1,234,567". */
static const char *grouped(int64_t value, char buf[32]) {
    char digits[24];
    size_t at = 0;
    str_format(digits, sizeof digits, "%lld", (long long)value);
    size_t n = strlen(digits);
    for (size_t i = 0; i < n; i++) {
        if (i && (n - i) % 3 == 0)
            buf[at++] = ',';
        buf[at++] = digits[i];
    }
    buf[at] = '\0';
    return buf;
}

/* A name that fits beside the rows, cut between characters. */
static void short_name(const char *name, char *buf, size_t size) {
    size_t at = 0, letters = 0;
    int step;
    while (name[at] && letters < NAME_LETTERS) {
        step = str_utf8_step(name + at);
        at += step ? (size_t)step : 1;
        letters++;
    }
    str_format(buf, size, "%.*s%s", (int)at, name, name[at] ? "…" : "");
}

static void draw_axes(struct svg *g, const struct raster *r, const struct layout *l) {
    int64_t first = r->network.first_tick, last = first + r->network.ticks - 1;
    int64_t step = llround(fmax(1, svg_step((double)r->network.ticks, 12)));
    char text[32];
    for (int64_t t = (first + step - 1) / step * step; t <= last; t += step) {
        double x = at_tick(r, (double)t);
        svg_line(g, x, TOP, x, l->bottom, "grid");
        svg_line(g, x, l->rates, x, l->rates_bottom + 5, "grid");
        svg_text(g, x, l->rates_bottom + 19, "tick", "middle", grouped(t, text));
    }
    for (int i = 0; i * l->step <= l->most * (1 + 1e-9); i++) {
        double y = l->rates_bottom - RATE_HEIGHT * (i * l->step / l->most);
        svg_line(g, LEFT, y, LEFT + WIDTH, y, i ? "grid" : "axis");
        str_format(text, sizeof text, "%.3g %%", i * l->step);
        svg_text(g, LEFT - 8, y + 4, "tick", "end", text);
    }
    svg_line(g, LEFT, l->bottom, LEFT + WIDTH, l->bottom, "axis");
    svg_text(g, LEFT + WIDTH / 2, l->rates_bottom + 38, "muted", "middle", "tick");
}

/* A stroke in each band's colour, and its name beside it; names of thin bands move down to stay readable. */
static void draw_names(struct svg *g, const struct raster *r, const struct layout *l) {
    double free_from = TOP - LINE_HEIGHT;
    for (int i = 0; i < r->n_bands; i++) {
        const struct band *b = &r->bands[i];
        double top = TOP + b->first_row * l->row, height = b->rows * l->row, y = top + 0.5 * height + 4;
        char name[CONNECTOME_NAME_SIZE + 8], number[32], text[64], class[24];
        bool two = height >= 2 * LINE_HEIGHT + 4;
        y = fmax(two ? y - 7 : y, free_from + LINE_HEIGHT);
        str_format(class, sizeof class, "line line%d", i);
        svg_line(g, LEFT - 4, top + 0.5, LEFT - 4, top + height - 0.5, class);
        if (i)
            svg_line(g, LEFT - 8, top, LEFT + WIDTH, top, "grid");
        short_name(b->name, name, sizeof name);
        svg_text(g, LEFT - 12, y, "name", "end", name);
        free_from = y;
        if (!two)
            continue;
        str_format(text, sizeof text, "%s neuron%s", grouped(b->members, number), b->members == 1 ? "" : "s");
        svg_text(g, LEFT - 12, y + LINE_HEIGHT + 2, "tick", "end", text);
        free_from = y + LINE_HEIGHT + 2;
    }
}

/* Which of LEVELS strengths a mark has: the share of its ticks in which the neuron fired; −1: none. */
static int level_of(const struct raster *r, int row, int column) {
    double share = r->spikes[row][column] / ticks_of(r, column);
    return share > 0 ? (int)fmin(ceil(share * LEVELS), LEVELS) - 1 : -1;
}

/* The marks of one strength: neighbours in a row as one stroke where marks fill their columns. */
static void draw_level(struct svg *g, const struct raster *r, const struct layout *l, int band, int level) {
    static const char *const opacity[LEVELS] = {".45", ".65", ".85", "1"};
    const struct band *b = &r->bands[band];
    double width = fmin(l->column, 4);
    struct svg_path p = {.g = g};
    str_printf(&g->out, "<path class=\"line%d\" fill=\"none\" stroke-width=\"%.1f\" stroke-opacity=\"%s\" d=\"", band,
               fmin(fmax(0.8 * l->row, 1), 8), opacity[level]);
    for (int row = b->first_row; row < b->first_row + b->rows; row++)
        for (int c = 0; c < r->columns; c++) {
            int start = c;
            if (level_of(r, row, c) != level)
                continue;
            while (width >= l->column && c + 1 < r->columns && level_of(r, row, c + 1) == level)
                c++;
            double x = LEFT + (start + 0.5) * l->column - 0.5 * width, y = TOP + (row + 0.5) * l->row;
            svg_path_move(&p, x, y);
            svg_path_line(&p, x + (c - start) * l->column + width, y);
        }
    svg_path_close(&p);
}

static void draw_rates(struct svg *g, const struct raster *r, const struct layout *l) {
    const char *text = r->n_bands > 1 ? "share of each area's neurons that fire in a tick, in the colours above"
                                      : "share of the neurons that fire in a tick";
    svg_text(g, LEFT, l->rates - 12, "muted", "start", text);
    for (int i = r->n_bands - 1; i >= 0; i--) {
        const struct band *b = &r->bands[i];
        struct svg_path p;
        char class[24];
        str_format(class, sizeof class, "line line%d", i);
        svg_path_open(&p, g, class);
        for (int c = 0; c < r->columns; c++)
            (c ? svg_path_line : svg_path_move)(&p, LEFT + (c + 0.5) * l->column,
                                                l->rates_bottom - RATE_HEIGHT * rate_of(r, b, c) / l->most);
        if (r->columns == 1)
            svg_path_line(&p, LEFT + WIDTH, l->rates_bottom - RATE_HEIGHT * rate_of(r, b, 0) / l->most);
        svg_path_close(&p);
    }
}

static void draw_heading(struct svg *g, const struct raster *r, const char *title, const char *subtitle) {
    char shown[32], all[32], text[128];
    svg_text(g, LEFT, 30, "title", "start", title);
    if (subtitle)
        svg_text(g, LEFT, 50, "muted", "start", subtitle);
    if (r->rows < r->network.neurons)
        str_format(text, sizeof text,
                   "each row is a neuron: %s of %s, evenly chosen, in place of silent ones neighbours that fired",
                   grouped(r->rows, shown), grouped(r->network.neurons, all));
    else
        str_format(text, sizeof text, "each row is a neuron");
    svg_text(g, LEFT, TOP - 12, "muted", "start", text);
}

int raster_save(const struct raster *r, const char *path, const char *title, const char *subtitle, struct err *err) {
    struct svg g;
    struct layout l = lay_out(r);
    char label[128];
    str_format(label, sizeof label, "spikes of %lld neurons in %lld ticks", (long long)r->network.neurons,
               (long long)r->network.ticks);
    svg_open(&g, LEFT + WIDTH + RIGHT, l.rates_bottom + 52, label);
    draw_heading(&g, r, title, subtitle);
    draw_axes(&g, r, &l);
    draw_names(&g, r, &l);
    for (int i = 0; i < r->n_bands; i++)
        for (int level = 0; level < LEVELS; level++)
            draw_level(&g, r, &l, i, level);
    draw_rates(&g, r, &l);
    return svg_save(&g, path, err);
}
