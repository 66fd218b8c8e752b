#include "client/brrctl/jobs/curves.h"

#include "base/needed.h"

enum { CURVES_MAX_COLUMNS = 64, CURVES_MAX_LINES = 1 << 24 };

const struct curve curves_shown[CURVES_SHOWN] = {{"training loss", "step", "loss", false},
                                                 {"validation loss", "validation", "validation_loss", false},
                                                 {"event F1", "validation", "event_f1", true},
                                                 {"AUROC", "validation", "auroc", true}};

static double step_of(const struct json *line) { return json_f64(json_get(line, "step"), NAN); }
static const char *kind_of(const struct json *line) { return json_str(json_get(line, "kind"), ""); }

/* Lines of an attempt that was cut off behind its checkpoint: their steps come again. */
static void drop_repeated(struct curves *c, const struct json *line) {
    while (c->n && step_of(c->lines[c->n - 1]) > step_of(line))
        json_free(c->lines[--c->n]);
    for (size_t i = c->n; i-- && step_of(c->lines[i]) >= step_of(line);)
        if (!strcmp(kind_of(c->lines[i]), kind_of(line))) {
            json_free(c->lines[i]);
            memmove(&c->lines[i], &c->lines[i + 1], (--c->n - i) * sizeof *c->lines);
        }
}

static void add_line(struct curves *c, struct json *line) {
    drop_repeated(c, line);
    if (c->n % 1024 == 0)
        c->lines = needed(realloc(c->lines, (c->n + 1024) * sizeof *c->lines));
    c->lines[c->n++] = line;
}

/* Lines that a kill cut off are passed over. */
static void read_metrics(const char *text, size_t len, struct curves *ret) {
    struct curves c = {0};
    for (const char *line = text, *end; (end = memchr(line, '\n', len - (size_t)(line - text))); line = end + 1) {
        struct json *json = NULL;
        if (!json_parse(line, (size_t)(end - line), "metrics.jsonl", &json, NULL))
            add_line(&c, json);
    }
    *ret = c;
}

void curves_done(struct curves *c) {
    for (size_t i = 0; i < c->n; i++)
        json_free(c->lines[i]);
    free(c->lines);
    *c = (struct curves){0};
}

struct fetching {
    struct curves *curves;
    bool found;
};

static int take_file(void *ctx, const struct job_file *file, struct err *err) {
    struct fetching *f = ctx;
    (void)err;
    f->found = true;
    read_metrics(file->data, file->len, f->curves);
    return 0;
}

int curves_fetch(const struct arguments *o, const char *id, struct curves *ret) {
    static const char *const pattern = "metrics.jsonl";
    struct fetching f = {.curves = ret};
    int code = job_files_each(o, id, &pattern, 1, take_file, &f);
    if (code || f.found)
        return code;
    fprintf(stderr, "brrctl: %s has no curves; jobs of kind train have them from their first steps on\n", id);
    return EXIT_FAILED;
}

static void print_csv_text(FILE *out, const char *text) {
    bool quoted = strpbrk(text, ",\"\n\r") != NULL;
    fputs(quoted ? "\"" : "", out);
    for (; *text; text++)
        fputs(*text == '"' ? "\"\"" : (char[]){*text, '\0'}, out);
    fputs(quoted ? "\"" : "", out);
}

static void print_csv_value(FILE *out, const struct json *value) {
    struct str text = str_of(64);
    if (json_kind(value) == JSON_KIND_STRING)
        print_csv_text(out, json_str(value, ""));
    else if (json_kind(value) == JSON_KIND_BOOL)
        fputs(json_bool(value, false) ? "true" : "false", out);
    else if (json_kind(value) == JSON_KIND_INTEGER)
        fprintf(out, "%lld", (long long)json_i64(value, 0));
    else if (json_kind(value) == JSON_KIND_REAL)
        str_put_f64(&text, json_f64(value, NAN));
    fputs(str_cstr(&text), out);
    str_done(&text);
}

/* Keys of all lines, each once; how many. */
static int columns_of(const struct curves *c, const char *columns[CURVES_MAX_COLUMNS]) {
    int n = 0;
    for (size_t i = 0; i < c->n; i++) {
        struct json_cursor at = {0};
        const struct json *value;
        const char *key;
        while (json_next(c->lines[i], &at, &key, &value)) {
            int k = 0;
            while (k < n && strcmp(columns[k], key))
                k++;
            if (k == n && n < CURVES_MAX_COLUMNS)
                columns[n++] = key;
        }
    }
    return n;
}

void curves_print_csv(const struct curves *c, FILE *out) {
    const char *columns[CURVES_MAX_COLUMNS];
    int n = columns_of(c, columns);
    for (int k = 0; k < n; k++) {
        fputs(k ? "," : "", out);
        print_csv_text(out, columns[k]);
    }
    fputs("\n", out);
    for (size_t i = 0; i < c->n; i++) {
        for (int k = 0; k < n; k++) {
            fputs(k ? "," : "", out);
            print_csv_value(out, json_get(c->lines[i], columns[k]));
        }
        fputs("\n", out);
    }
}

struct curve_points curves_points(const struct curves *c, const struct curve *which) {
    struct curve_points p = {.points = needed(malloc((c->n + 1) * sizeof *p.points)), .best = -1};
    for (size_t i = 0; i < c->n && p.n < CURVES_MAX_LINES; i++) {
        double y = strcmp(kind_of(c->lines[i]), which->kind) ? NAN : json_f64(json_get(c->lines[i], which->key), NAN);
        if (isnan(y) || isnan(step_of(c->lines[i])))
            continue;
        if (p.best < 0 || (which->largest_is_best ? y > p.points[p.best].y : y < p.points[p.best].y))
            p.best = p.n;
        p.points[p.n++] = (struct plot_point){step_of(c->lines[i]), y};
    }
    return p;
}
