#include "client/brrctl/jobs/curves.h"

enum { CURVES_MAX_COLUMNS = 64 };

struct fetching {
    struct course *course;
    bool found;
};

static int take_file(void *ctx, const struct job_file *file, struct err *err) {
    struct fetching *f = ctx;
    f->found = true;
    return course_read(f->course, file->data, file->len, err);
}

int curves_fetch(const struct arguments *o, const char *id, struct course *ret) {
    static const char *const pattern = "metrics.jsonl";
    struct fetching f = {.course = ret};
    int code = job_files_each(o, id, &pattern, 1, take_file, &f);
    if (code || f.found)
        return code;
    fprintf(
        stderr,
        "brrctl: %s has no curves: its folder has no metrics.jsonl, which trainings write from their first steps on, and which a "
        "backup leaves out with the folders of jobs\n",
        id);
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
static int columns_of(const struct course *c, const char *columns[CURVES_MAX_COLUMNS]) {
    int n = 0;
    for (int i = 0; i < c->n; i++) {
        struct json_cursor at = {0};
        const struct json *value;
        const char *key;
        while (json_next(c->lines[i].json, &at, &key, &value)) {
            int k = 0;
            while (k < n && strcmp(columns[k], key))
                k++;
            if (k == n && n < CURVES_MAX_COLUMNS)
                columns[n++] = key;
        }
    }
    return n;
}

void curves_print_csv(const struct course *c, FILE *out) {
    const char *columns[CURVES_MAX_COLUMNS];
    int n = columns_of(c, columns);
    for (int k = 0; k < n; k++) {
        fputs(k ? "," : "", out);
        print_csv_text(out, columns[k]);
    }
    fputs("\n", out);
    for (int i = 0; i < c->n; i++) {
        for (int k = 0; k < n; k++) {
            fputs(k ? "," : "", out);
            print_csv_value(out, json_get(c->lines[i].json, columns[k]));
        }
        fputs("\n", out);
    }
}
