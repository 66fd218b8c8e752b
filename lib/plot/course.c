#include "plot/course.h"

#include "base/grow.h"
#include "base/json.h"

const struct course_figure course_figures[COURSE_FIGURES] = {{"training loss", "step", "loss", false},
                                                             {"validation loss", "validation", "validation_loss", false},
                                                             {"event F1", "validation", "event_f1", true},
                                                             {"AUROC", "validation", "auroc", true}};

/* Lines of an attempt that was cut off behind its checkpoint: their steps come again. */
static void drop_repeated(struct course *c, const struct course_line *line) {
    while (c->n && c->lines[c->n - 1].step > line->step)
        json_free(c->lines[--c->n].json);
    for (int i = c->n; i-- && c->lines[i].step >= line->step;)
        if (!strcmp(c->lines[i].kind, line->kind)) {
            json_free(c->lines[i].json);
            memmove(&c->lines[i], &c->lines[i + 1], (size_t)(--c->n - i) * sizeof *c->lines);
        }
}

/* False without memory. */
static bool add_line(struct course *c, struct json *json) {
    bool kept = c->whole;
    struct course_line line = {.step = json_f64(json_get(json, "step"), NAN), .json = c->whole ? json : NULL};
    str_copy(line.kind, sizeof line.kind, json_str(json_get(json, "kind"), ""));
    for (int i = 0; i < COURSE_FIGURES; i++) {
        const bool has = !strcmp(line.kind, course_figures[i].kind) && isfinite(line.step);
        line.values[i] = has ? json_f64(json_get(json, course_figures[i].key), NAN) : NAN;
        kept |= !isnan(line.values[i]);
    }
    drop_repeated(c, &line);
    const bool room = !kept || GROW(c->lines, c->n, c->size);
    if (room && kept)
        c->lines[c->n++] = line;
    if (!room || !c->whole)
        json_free(json);
    return room;
}

int course_read(struct course *c, const char *text, size_t len, struct err *err) {
    for (const char *line = text, *end; (end = memchr(line, '\n', len - (size_t)(line - text))); line = end + 1) {
        struct json *json = NULL;
        if (!json_parse(line, (size_t)(end - line), "metrics.jsonl", &json, NULL) && !add_line(c, json))
            return err_set(err, ERR_EXHAUSTED, "out of memory for the course of a training");
    }
    return 0;
}

void course_done(struct course *c) {
    for (int i = 0; i < c->n; i++)
        json_free(c->lines[i].json);
    free(c->lines);
    *c = (struct course){0};
}

struct course_points course_points_of(const struct course *c, int figure) {
    struct course_points p = {.points = malloc(((size_t)c->n + 1) * sizeof *p.points), .best = -1};
    for (int i = 0; p.points && i < c->n; i++) {
        const double y = c->lines[i].values[figure], best = p.best < 0 ? y : p.points[p.best].y;
        if (isnan(y))
            continue;
        if (p.best < 0 || (course_figures[figure].largest_is_best ? y > best : y < best))
            p.best = p.n;
        p.points[p.n++] = (struct plot_point){c->lines[i].step, y};
    }
    return p;
}
