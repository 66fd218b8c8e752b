/* compare JOB JOB: what differs between two jobs: keys of their files, results, curves. */

#include "base/needed.h"
#include "base/yaml.h"
#include "client/brrctl/jobs/curves.h"
#include "client/brrctl/output.h"
#include "plot/picture.h"
#include "plot/plot_compare.h"

enum { COMPARE_ROWS = 1024, COMPARE_ARENA = 4 << 20, COMPARE_VALUE = 160, COMPARE_WIDTH = 32 };

struct compare_options {
    const char *plot;
};
#define OPTIONS struct compare_options
static const struct argument rows[] = {
    OUTPUT("--plot", plot, "FILE", "draw the curves of both; .svg, .png or .pdf"),
};

/* A key and its value in either job; "" = absent. */
struct pair {
    char key[96], value[2][COMPARE_VALUE];
};
struct table {
    struct pair *rows; /* (COMPARE_ROWS) */
    int n;
};
struct side {
    Brr__V1__Job *job;
    struct course course;
    struct course_points points[COURSE_FIGURES];
};
struct comparison {
    struct side sides[2];
    struct table configuration, result;
};

static void put_value(struct table *t, const char *key, int side, const char *value) {
    int i = 0;
    while (i < t->n && strcmp(t->rows[i].key, key) != 0)
        i++;
    if (i == COMPARE_ROWS)
        return;
    if (i == t->n)
        str_copy(t->rows[t->n++].key, sizeof t->rows->key, key);
    str_copy(t->rows[i].value[side], COMPARE_VALUE, value);
}

/* ---- configuration: the job file with its overrides ---- */

static void put_sequence(struct str *out, const struct yaml_node *node) {
    str_puts(out, "[");
    for (const struct yaml_node *item = node->child; item; item = item->next)
        str_printf(out, "%s%s", item->type == YAML_SCALAR ? item->text : "…", item->next ? ", " : "");
    str_puts(out, "]");
}

static void put_keys(struct table *t, const struct yaml_node *node, const char *path, int side) {
    char key[96];
    struct str text;
    for (const struct yaml_node *child = node->child; child; child = child->next) {
        str_format(key, sizeof key, "%s%s%s", path, *path ? "." : "", child->key);
        if (child->type == YAML_MAPPING) {
            put_keys(t, child, key, side);
            continue;
        }
        str_init(&text, COMPARE_VALUE);
        if (child->type == YAML_SEQUENCE)
            put_sequence(&text, child);
        else
            str_puts(&text, child->text);
        put_value(t, key, side, str_cstr(&text));
        str_done(&text);
    }
}

static int read_configuration(struct table *t, const Brr__V1__Job *job, int side, struct err *err) {
    struct yaml_node *root;
    OWNED(arena_done) struct arena arena = arena_of(COMPARE_ARENA);
    int rc = 0;
    if (job->file && !(rc = yaml_parse(&arena, job->file->yaml, strlen(job->file->yaml), job->file->name, &root, err))) {
        for (size_t i = 0; !rc && i < job->file->n_overrides; i++)
            rc = yaml_set(&arena, root, job->file->overrides[i], err);
        if (!rc)
            put_keys(t, root, "", side);
    }
    return rc;
}

/* ---- results ---- */

static void put_results(struct table *t, const struct json *object, const char *path, int side) {
    struct json_cursor at = {0};
    const struct json *value;
    const char *name;
    char key[96], figure[32];
    while (json_next(object, &at, &name, &value)) {
        enum json_kind kind = json_kind(value);
        str_format(key, sizeof key, "%s%s%s", path, *path ? "." : "", name);
        if (kind == JSON_KIND_OBJECT)
            put_results(t, value, key, side);
        else if (kind == JSON_KIND_STRING)
            put_value(t, key, side, json_str(value, ""));
        else if (kind == JSON_KIND_INTEGER || kind == JSON_KIND_REAL)
            put_value(t, key, side, output_figure(json_f64(value, NAN), figure, sizeof figure));
    }
}

static int read_result(struct table *t, const Brr__V1__Job *job, int side, struct err *err) {
    OWNED_POINTER(json_free) struct json *result = NULL;
    char text[32];
    put_value(t, "kind", side, job->kind);
    put_value(t, "state", side, brr_job_state_name((int)job->state));
    put_value(t, "device", side, job->device);
    put_value(t, "run time", side, output_duration((double)job->run_ms / 1000, text, sizeof text));
    if (!*job->result_json)
        return 0;
    int rc = json_parse(job->result_json, strlen(job->result_json), "result", &result, err);
    if (rc)
        return rc;
    put_results(t, result, "", side);
    return 0;
}

/* ---- printing ---- */

static bool differs(const struct pair *p) { return strcmp(p->value[0], p->value[1]) != 0; }

static void print_table(const char *title, const struct table *t, const char *absent) {
    bool any = false;
    for (int i = 0; i < t->n; i++) {
        const struct pair *p = &t->rows[i];
        double a, b;
        if (!differs(p))
            continue;
        if (!any)
            printf("\n%s\n", title);
        any = true;
        printf("  %-*s %-*s %s", COMPARE_WIDTH, p->key, COMPARE_WIDTH, *p->value[0] ? p->value[0] : absent,
               *p->value[1] ? p->value[1] : absent);
        if (str_to_f64(p->value[0], &a) && str_to_f64(p->value[1], &b))
            printf("  (%+.4g)", b - a);
        putchar('\n');
    }
    if (!any)
        printf("\n%s: the same\n", title);
}

static void curve_text(const struct course_points *p, char buf[64]) {
    if (!p->n)
        str_copy(buf, 64, "-");
    else
        str_format(buf, 64, "%.4g, best %.4g at step %.0f", p->points[p->n - 1].y, p->points[p->best].y, p->points[p->best].x);
}

static void print_curves(const struct comparison *c) {
    bool any = false;
    for (int i = 0; i < COURSE_FIGURES; i++) {
        char a[64], b[64];
        if (!c->sides[0].points[i].n && !c->sides[1].points[i].n)
            continue;
        if (!any)
            puts("\ncurves: last value, best value");
        any = true;
        curve_text(&c->sides[0].points[i], a);
        curve_text(&c->sides[1].points[i], b);
        printf("  %-*s %-*s %s\n", COMPARE_WIDTH, course_figures[i].name, COMPARE_WIDTH, a, b);
    }
}

static void print_comparison(const struct comparison *c) {
    printf("  %-*s %-*s %s\n", COMPARE_WIDTH, "", COMPARE_WIDTH, c->sides[0].job->id, c->sides[1].job->id);
    if (*c->sides[0].job->name || *c->sides[1].job->name)
        printf("  %-*s %-*s %s\n", COMPARE_WIDTH, "name", COMPARE_WIDTH, c->sides[0].job->name, c->sides[1].job->name);
    print_table("job files", &c->configuration, "(default)");
    print_table("results", &c->result, "-");
    print_curves(c);
}

static void json_pair(struct json_writer *w, const struct pair *p) {
    static const char *const names[2] = {"a", "b"};
    json_begin_object(w, NULL);
    json_put_str(w, "key", p->key);
    for (int s = 0; s < 2; s++) {
        double value;
        if (!*p->value[s])
            json_put_null(w, names[s]);
        else if (str_to_f64(p->value[s], &value))
            json_put_f64(w, names[s], value);
        else
            json_put_str(w, names[s], p->value[s]);
    }
    json_end(w, '}');
}

static void json_table(struct json_writer *w, const char *key, const struct table *t) {
    json_begin_array(w, key);
    for (int i = 0; i < t->n; i++)
        if (differs(&t->rows[i]))
            json_pair(w, &t->rows[i]);
    json_end(w, ']');
}

static void json_curve(struct json_writer *w, const char *key, const struct course_points *p) {
    if (!p->n) {
        json_put_null(w, key);
        return;
    }
    json_begin_object(w, key);
    json_put_f64(w, "last", p->points[p->n - 1].y);
    json_put_f64(w, "last_step", p->points[p->n - 1].x);
    json_put_f64(w, "best", p->points[p->best].y);
    json_put_f64(w, "best_step", p->points[p->best].x);
    json_end(w, '}');
}

static void print_json(const struct comparison *c) {
    struct json_writer *w = output_begin();
    json_put_str(w, "a", c->sides[0].job->id);
    json_put_str(w, "b", c->sides[1].job->id);
    json_table(w, "configuration", &c->configuration);
    json_table(w, "result", &c->result);
    json_begin_array(w, "curves");
    for (int i = 0; i < COURSE_FIGURES; i++) {
        json_begin_object(w, NULL);
        json_put_str(w, "name", course_figures[i].name);
        json_curve(w, "a", &c->sides[0].points[i]);
        json_curve(w, "b", &c->sides[1].points[i]);
        json_end(w, '}');
    }
    json_end(w, ']');
    output_end(w);
}

/* ---- the picture ---- */

static int draw(const struct comparison *c, const char *path, struct err *err) {
    struct plot_quantity quantities[COURSE_FIGURES];
    char subtitle[256];
    for (int i = 0; i < COURSE_FIGURES; i++) {
        const struct course_points *a = &c->sides[0].points[i], *b = &c->sides[1].points[i];
        quantities[i] =
            (struct plot_quantity){course_figures[i].name, course_figures[i].largest_is_best, {a->points, b->points}, {a->n, b->n}};
    }
    str_format(subtitle, sizeof subtitle, "drawn through: A, %s; dashed: B, %s", c->sides[0].job->id, c->sides[1].job->id);
    const struct plot_compare picture = {
        .title = "Two trainings", .subtitle = subtitle, .quantities = quantities, .n = COURSE_FIGURES};
    return plot_compare_draw(path, &picture, err);
}

/* ---- the command ---- */

/* Trainings have curves; other jobs have none, which is no error here. */
static int read_curves(const struct arguments *o, struct side *side) {
    int code = strcmp(side->job->kind, "train") ? 0 : curves_fetch(o, side->job->id, &side->course);
    for (int i = 0; !code && i < COURSE_FIGURES; i++)
        needed((side->points[i] = course_points_of(&side->course, i)).points);
    return code;
}

static void comparison_done(struct comparison *c) {
    for (int s = 0; s < 2; s++) {
        brr__v1__job__free_unpacked(c->sides[s].job, NULL);
        course_done(&c->sides[s].course);
        for (int i = 0; i < COURSE_FIGURES; i++)
            free(c->sides[s].points[i].points);
    }
    free(c->configuration.rows);
    free(c->result.rows);
}

static int read_sides(const struct arguments *o, struct comparison *c, struct err *err) {
    int code = 0;
    for (int s = 0; s < 2 && !code; s++) {
        struct side *side = &c->sides[s];
        if (!(side->job = job_files_job(o, o->args[s], &code)))
            return code;
        if (read_configuration(&c->configuration, side->job, s, err) || read_result(&c->result, side->job, s, err))
            return EXIT_FAILED;
        code = read_curves(o, side);
    }
    return code;
}

static int cmd_compare(const struct arguments *o) {
    struct err err = {0};
    if (own(o)->plot && !picture_known(own(o)->plot)) {
        fputs("brrctl: --plot writes a picture; expected a FILE.svg, FILE.png or FILE.pdf\n", stderr);
        return EXIT_USAGE;
    }
    OWNED(comparison_done)
    struct comparison c = {.configuration.rows = needed(calloc(COMPARE_ROWS, sizeof *c.configuration.rows)),
                           .result.rows = needed(calloc(COMPARE_ROWS, sizeof *c.result.rows))};
    int code = read_sides(o, &c, &err);
    if (!code && own(o)->plot && draw(&c, own(o)->plot, &err))
        code = EXIT_FAILED;
    if (code)
        return err.code ? brrctl_fail(&err) : code;
    if (o->json)
        print_json(&c);
    else
        print_comparison(&c);
    return 0;
}

BRRCTL_COMMAND(compare, "JOB JOB", ARGUMENTS(rows), cmd_compare, "show what differs between two jobs: keys, results, curves",
               "Keys that only one job file has are compared with \"(default)\".\n"
               "example: brrctl compare train-260131-1 train-260131-2 --plot curves.png");
