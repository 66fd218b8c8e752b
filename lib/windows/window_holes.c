/* Holes: records that a recording is read without, as if they had never been written. */

#include "windows/window_builder.h"

/* In records of the file. */
struct holes {
    int64_t first, every, length;
};

/* Where they are follows from the key; length 0: none. */
static struct holes holes_of(const struct builder *b) {
    const double record_s = b->info->record_s, every_s = b->request->hole_every_s;
    if (!(every_s > 0) || !(record_s > 0) || record_s > WINDOW_HOLE_S || b->labels.n_runs)
        return (struct holes){0};
    struct holes h = {.every = llround(every_s / record_s), .length = llround(WINDOW_HOLE_S / record_s)};
    h.first = (int64_t)(strtoull((char[9]){b->key[0], b->key[1], b->key[2], b->key[3], b->key[4], b->key[5], b->key[6], b->key[7]},
                                 NULL, 16) %
                        (unsigned long long)h.every);
    return h;
}

/* The end of the run of records from `at` on that are alike: in a hole, or not. */
static int64_t run_end(const struct holes *h, int64_t at, bool *ret_hole) {
    int64_t past = at - h->first, k = past >= 0 ? past % h->every : past;
    *ret_hole = past >= 0 && k < h->length;
    return *ret_hole ? at + h->length - k : past < 0 ? h->first : at + h->every - k;
}

int builder_cut_holes(struct builder *b, struct err *err) {
    const struct eeg_info *info = b->info;
    const struct holes h = holes_of(b);
    COPY_MEMBERS(*b, *info, segments, n_segments);
    if (!h.length)
        return 0;
    struct eeg_segment *kept = calloc((size_t)(info->n_records / h.every + 2 + info->n_segments), sizeof *kept);
    if (!kept)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %lld records", (long long)info->n_records);
    int n = 0;
    for (int s = 0; s < info->n_segments; s++) {
        const struct eeg_segment *from = &info->segments[s];
        bool hole;
        for (int64_t at = from->first_record, all = at + from->n_records, end; at < all; at = end) {
            end = run_end(&h, at, &hole);
            end = end < all ? end : all;
            if (!hole)
                kept[n++] = (struct eeg_segment){at, end - at, from->start_s + (double)(at - from->first_record) * info->record_s};
        }
    }
    free(b->cut);
    b->segments = b->cut = kept;
    b->n_segments = n;
    return 0;
}
