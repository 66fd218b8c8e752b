#include "client/brrctl/report/review_queue.h"

enum { LABELS = -1 }; /* in place of a model */

struct span {
    const struct report_recording *recording;
    double onset_s, end_s, confidence;
    int model;
};

void review_queue_done(struct review_queue *q) {
    free(q->items);
    *q = (struct review_queue){0};
}

static int by_time(const void *a, const void *b) {
    const struct span *x = a, *y = b;
    const int names = strcmp(x->recording->name, y->recording->name);
    return names ? names : (x->onset_s > y->onset_s) - (x->onset_s < y->onset_s);
}

static int by_worth(const void *a, const void *b) {
    const struct review_item *x = a, *y = b;
    if (x->worth != y->worth)
        return x->worth < y->worth ? 1 : -1;
    const int names = strcmp(x->recording->name, y->recording->name);
    return names ? names : (x->onset_s > y->onset_s) - (x->onset_s < y->onset_s);
}

/* All spans in order; *ret_n of them. malloc'd, NULL: out of memory. */
static struct span *spans_of(const struct report_data *data, int n, size_t *ret_n) {
    size_t most = 1, used = 0;
    for (int m = 0; m < n; m++)
        for (int i = 0; i < data[m].n; i++)
            most += (size_t)data[m].recordings[i].n_detected + (size_t)data[m].recordings[i].n_reference;
    struct span *spans = malloc(most * sizeof *spans);
    for (int m = 0; m < n && spans; m++)
        for (int i = 0; i < data[m].n; i++) {
            const struct report_recording *r = &data[m].recordings[i];
            for (int k = 0; k < r->n_detected; k++)
                spans[used++] = (struct span){r, r->detected[k].onset_s, r->detected[k].end_s, r->confidence[k], m};
            for (int k = 0; k < r->n_reference; k++)
                spans[used++] = (struct span){r, r->reference[k].onset_s, r->reference[k].end_s, NAN, LABELS};
        }
    if (spans)
        qsort(spans, used, sizeof *spans, by_time);
    *ret_n = used;
    return spans;
}

static void weigh(struct review_item *item, int n_models) {
    const double share = (double)item->found / n_models;
    if (item->found)
        item->unsure = isnan(item->confidence) ? 1 : 1 - fabs(2 * item->confidence - 1);
    item->disagree = 4 * share * (1 - share);
    if (item->labelled && item->found && !item->in_labels)
        item->surprise = isnan(item->confidence) ? 1 : item->confidence;
    if (item->in_labels && !item->found)
        item->surprise = 1;
    item->worth = item->unsure + item->disagree + item->surprise;
}

int review_queue_make(const struct report_data *data, int n, struct review_queue *ret, struct err *err) {
    size_t n_spans;
    struct span *spans = spans_of(data, n, &n_spans);
    struct review_queue q = {.items = calloc(n_spans + 1, sizeof *q.items)};
    uint64_t models = 0; /* that found the newest item; REVIEW_MODELS fit */
    for (size_t i = 0; spans && q.items && i < n_spans; i++) {
        const struct span *s = &spans[i];
        struct review_item *last = q.n ? &q.items[q.n - 1] : NULL;
        if (!last || strcmp(last->recording->name, s->recording->name) != 0 || s->onset_s >= last->end_s) {
            last = &q.items[q.n++];
            *last = (struct review_item){.recording = s->recording, .onset_s = s->onset_s, .confidence = NAN};
            last->labelled = s->recording->labelled;
            models = 0;
        }
        last->end_s = fmax(last->end_s, s->end_s);
        last->confidence = fmax(last->confidence, s->confidence);
        last->in_labels |= s->model == LABELS;
        if (s->model != LABELS && !(models >> s->model & 1))
            last->found++;
        models |= s->model == LABELS ? 0 : (uint64_t)1 << s->model;
    }
    const bool failed = !spans || !q.items;
    free(spans);
    if (failed) {
        review_queue_done(&q);
        return err_set(err, ERR_EXHAUSTED, "out of memory for the queue of a review");
    }
    for (int i = 0; i < q.n; i++)
        weigh(&q.items[i], n);
    if (q.n)
        qsort(q.items, (size_t)q.n, sizeof *q.items, by_worth);
    *ret = q;
    return 0;
}
