#include "client/brrctl/listing.h"

enum { MOST_BYTES = 64 << 20, GAP = 2 };
static const char between[] = "\x1f"; /* cells, in the text; rows end with a line feed */

void listing_begin(struct listing *l, const char *titles) {
    *l = (struct listing){.titles = titles};
    str_init(&l->text, MOST_BYTES);
    for (const char *at = titles; *at; at++)
        if (*at != '>')
            str_printf(&l->text, "%c", *at == '|' ? *between : *at);
    str_puts(&l->text, "\n");
}

void listing_row(struct listing *l, const char *format, ...) {
    char parts[512];
    va_list args;
    str_copy(parts, sizeof parts, format);
    for (char *at = parts; (at = strchr(at, '|'));)
        *at = *between;
    const size_t before = l->text.len;
    va_start(args, format);
    str_vprintf(&l->text, parts, args);
    va_end(args);
    for (size_t i = before; i < l->text.len; i++)
        if (l->text.data[i] == '\n')
            l->text.data[i] = ' '; /* a text of several lines stays in its row */
    str_puts(&l->text, "\n");
    l->rows++;
}

static int columns_in(const char *text, size_t len) {
    int n = 0;
    for (size_t at = 0, step; at < len && (step = (size_t)str_utf8_step(text + at)); at += step)
        n++;
    return n;
}

/* Calls visit for each cell. */
typedef void visit_fn(void *ctx, int column, const char *cell, size_t len, bool last);
static void each_cell(const struct listing *l, visit_fn *visit, void *ctx) {
    int column = 0;
    for (const char *at = str_cstr(&l->text); *at;) {
        const size_t len = strcspn(at, "\x1f\n");
        const bool last = at[len] != *between;
        visit(ctx, column, at, len, last);
        column = last || column + 1 == LISTING_COLUMNS ? 0 : column + 1;
        at += len + (at[len] != '\0');
    }
}

struct columns {
    int width[LISTING_COLUMNS];
    bool right[LISTING_COLUMNS];
};

static void measure_cell(void *ctx, int column, const char *cell, size_t len, bool last) {
    int *width = &((struct columns *)ctx)->width[column], own = columns_in(cell, len);
    (void)last;
    *width = own > *width ? own : *width;
}

static void print_cell(void *ctx, int column, const char *cell, size_t len, bool last) {
    const struct columns *c = ctx;
    const int pad = c->width[column] - columns_in(cell, len);
    printf("%*s%.*s%*s%s", c->right[column] ? pad : 0, "", (int)len, cell, c->right[column] || last ? 0 : pad + GAP, "",
           last               ? "\n"
           : c->right[column] ? "  "
                              : "");
}

void listing_end(struct listing *l) {
    struct columns c = {.right = {*l->titles == '>'}};
    int column = 0;
    for (const char *at = l->titles; (at = strchr(at, '|')) && ++column < LISTING_COLUMNS; at++)
        c.right[column] = at[1] == '>';
    each_cell(l, measure_cell, &c);
    if (l->rows)
        each_cell(l, print_cell, &c);
    str_done(&l->text);
}
