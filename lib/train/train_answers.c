#include "train/train_answers.h"

#include "base/order.h"
#include "eeg/answers.h"
#include "eeg/events.h"
#include "train/train_ranks.h"
#include "windows/patients.h"

enum { PATH_SIZE = 4096 };

void train_answers_done(struct train_answers *a) {
    free(a->items);
    *a = (struct train_answers){0};
}

/* The file in which `brrctl review` keeps the answers about a recording. */
static int answers_path(const struct manifest *m, const struct manifest_entry *e, const char *root, char ret[PATH_SIZE],
                        struct err *err) {
    const struct manifest_source *sources = NULL;
    const char *relative = e->relative_path;
    char name[PATH_SIZE];
    manifest_sources(m, &sources);
    if (sources) {
        root = sources[e->source].root;
        relative += strlen(sources[e->source].name) + 1;
    }
    int rc = events_path(events_format_find("tsv"), relative, name, sizeof name, err);
    return rc ? rc : fsio_join(ret, PATH_SIZE, root, name, err);
}

static int take_answers_of(struct train_answers *list, const struct answers *of, int64_t entry, const char *path, uint64_t seed,
                           struct err *err) {
    struct train_answer *more = realloc(list->items, ((size_t)list->n + of->n) * sizeof *more);
    char salt[32], name[PATH_SIZE + 32];
    if (!more)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the answers of %s", path);
    list->items = more;
    str_format(salt, sizeof salt, "%llu", (unsigned long long)seed);
    for (size_t i = 0; i < of->n; i++) {
        const struct answer *a = &of->items[i];
        const struct window_span span = {(int64_t)floor(a->onset_s * FRONTEND_RATE_HZ), (int64_t)ceil(a->end_s * FRONTEND_RATE_HZ)};
        str_format(name, sizeof name, "%s@%lld", path, (long long)span.first);
        list->items[list->n++] = (struct train_answer){
            .entry = entry, .span = span, .seizure = events_is_seizure(a->type), .draw = patient_hash(salt, name)};
    }
    return 0;
}

static int answers_by_draw(const void *a, const void *b) {
    const struct train_answer *x = a, *y = b;
    const int drawn = order_then(y->seizure - x->seizure, (x->draw > y->draw) - (x->draw < y->draw));
    return order_then(drawn, order_then(order_i64(x->entry, y->entry), order_i64(x->span.first, y->span.first)));
}

static int answers_by_place(const void *a, const void *b) {
    const struct train_answer *x = a, *y = b;
    return order_then(order_f64(x->place, y->place), answers_by_draw(a, b));
}

static void put_in_order(struct train_answers *a) {
    int64_t seizures = 0;
    if (!a->n)
        return;
    SORT(a->items, a->n, answers_by_draw);
    while (seizures < a->n && a->items[seizures].seizure)
        seizures++;
    for (int64_t i = 0; i < a->n; i++)
        a->items[i].place =
            i < seizures ? (double)i / (double)seizures : ((double)(i - seizures) + 0.5) / (double)(a->n - seizures);
    SORT(a->items, a->n, answers_by_place);
}

int train_answers_read(const struct manifest *m, const uint8_t *role, const char *root, uint64_t seed, struct train_answers *ret,
                       struct err *err) {
    OWNED(train_answers_done) struct train_answers list = {0};
    for (int64_t i = 0; i < manifest_count(m); i++) {
        const struct manifest_entry *e = manifest_entry(m, i);
        OWNED(answers_done) struct answers of = {0};
        struct recording_info info;
        char path[PATH_SIZE];
        int rc;
        if (role[i] != TRAIN_ROLE_TRAINING || !e->recording)
            continue;
        recording_info(e->recording, &info);
        if (strcmp(info.label_source, "bids-tsv") != 0)
            continue;
        if ((rc = answers_path(m, e, root, path, err)) || (rc = answers_read(path, &of, err)) ||
            (of.n && (rc = take_answers_of(&list, &of, i, e->relative_path, seed, err))))
            return rc;
    }
    put_in_order(&list);
    *ret = list;
    list = (struct train_answers){0};
    return 0;
}

/* ---- hiding ---- */

/* An answer that a point counts or not. */
struct judged {
    const struct train_answer *answer;
    bool counts;
};

static int judged_by_recording(const void *a, const void *b) {
    const struct train_answer *x = ((const struct judged *)a)->answer, *y = ((const struct judged *)b)->answer;
    return order_then(order_i64(x->entry, y->entry), order_i64(x->span.first, y->span.first));
}

/* Hides n answers about one recording; spans has room for them. */
static int hide_some(const struct judged *of, int64_t n, struct window_span *spans, struct manifest *m, struct err *err) {
    const int64_t entry = of->answer->entry;
    struct recording_info info;
    bool any = false;
    int hidden = 0;
    recording_info(manifest_entry(m, entry)->recording, &info);
    for (int64_t i = 0; i < n; i++) {
        struct window_span span = of[i].answer->span;
        any |= of[i].counts;
        span.end = span.end < info.samples ? span.end : info.samples;
        if (hidden && span.first < spans[hidden - 1].end) /* they were widened to whole samples */
            span.first = spans[hidden - 1].end;
        if (!of[i].counts && span.first < span.end)
            spans[hidden++] = span;
    }
    if (!any && info.samples)
        spans[0] = (struct window_span){0, info.samples}, hidden = 1;
    return manifest_hide(m, entry, spans, hidden, err);
}

int train_answers_hide(const struct train_answers *a, int64_t counted, struct manifest *m, struct err *err) {
    OWNED_MEMORY struct judged *all = calloc((size_t)a->n + 1, sizeof *all);
    OWNED_MEMORY struct window_span *spans = calloc((size_t)a->n + 1, sizeof *spans);
    int rc = 0;
    if (!all || !spans)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %lld answers", (long long)a->n);
    for (int64_t i = 0; i < a->n; i++)
        all[i] = (struct judged){&a->items[i], i < counted};
    SORT(all, a->n, judged_by_recording);
    for (int64_t i = 0, end; i < a->n && !rc; i = end) {
        for (end = i + 1; end < a->n && all[end].answer->entry == all[i].answer->entry;)
            end++;
        rc = hide_some(all + i, end - i, spans, m, err);
    }
    return rc;
}

int train_answers_check(const struct train_config *job, const struct manifest *m, const uint8_t *role, const char *root,
                        struct err *err) {
    OWNED(train_answers_done) struct train_answers answers = {0};
    bool scored = false;
    int rc;
    if (!job->training.answers_curve)
        return 0;
    for (int64_t i = 0; i < manifest_count(m) && !scored; i++)
        scored = role[i] == TRAIN_ROLE_VALIDATION && manifest_entry(m, i)->recording;
    if (!scored)
        return err_set(err, ERR_PRECONDITION,
                       "training.answers_curve scores recordings that the training does not learn from, and there are none: set "
                       "data.validation_fraction, or name patients in data.split.validation");
    if ((rc = train_answers_read(m, role, root, 0, &answers, err)))
        return rc;
    return answers.n ? 0
                     : err_set(err, ERR_PRECONDITION,
                               "training.answers_curve counts the answers of readers, and the recordings that train have none: "
                               "answer some with `brrctl review`, or remove the key");
}

int train_answers_apply(struct train *t, struct err *err) {
    OWNED(train_answers_done) struct train_answers answers = {0};
    const int64_t counted = t->job->point.answers;
    if (t->job->training.answers_curve && train_is_shared(t))
        return err_set(err, ERR_UNSUPPORTED, "training.answers_curve is drawn by one rank, and %d train; remove the key",
                       t->world->size);
    if (!t->job->point.is_one)
        return train_answers_check(t->job, t->manifest, t->role, t->env.data_root, err);
    if (!counted)
        return 0;
    int rc = train_answers_read(t->manifest, t->role, t->env.data_root, (uint64_t)t->job->training.seed, &answers, err);
    return rc ? rc : train_answers_hide(&answers, counted, t->manifest, err);
}
