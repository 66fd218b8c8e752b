#include "client/brrctl/burst/spikes.h"

bool spikes_is_name(const char *path) { return str_ends(path, ".npy") || str_ends(path, ".tsv"); }

int spikes_open(struct spikes *s, const char *path, struct err *err) {
    static const char header[] = "tick\tid\n";
    *s = (struct spikes){0};
    if (!path)
        return 0;
    s->tsv = str_ends(path, ".tsv");
    int rc = s->tsv ? fsio_writer_open(&s->text, path, err) : spikefile_open(&s->npy, path, err);
    if (rc)
        return rc;
    s->open = true;
    return s->tsv ? fsio_writer_write(&s->text, header, sizeof header - 1, err) : 0;
}

static int add_rows(struct spikes *s, int64_t tick, const uint32_t *ids, size_t n, struct err *err) {
    enum { ROWS = 512, ROW_BYTES = 32 };
    char text[ROWS * ROW_BYTES];
    int rc;
    for (size_t i = 0; i < n;) {
        size_t at = 0;
        for (int k = 0; k < ROWS && i < n; k++, i++) {
            str_format(text + at, ROW_BYTES, "%" PRId64 "\t%" PRIu32 "\n", tick, ids[i]);
            at += strlen(text + at);
        }
        if ((rc = fsio_writer_write(&s->text, text, at, err)))
            return rc;
    }
    return 0;
}

int spikes_add(struct spikes *s, int64_t tick, const uint32_t *ids, size_t n, struct err *err) {
    if (!s->open || !n)
        return 0;
    const struct burst_frame frame = {.tick = (uint64_t)tick, .ids = ids, .fired = (int64_t)n};
    return s->tsv ? add_rows(s, tick, ids, n, err) : spikefile_add(&s->npy, &frame, err);
}

int spikes_close(struct spikes *s, struct err *err) {
    if (!s->open)
        return 0;
    s->open = false;
    return s->tsv ? fsio_writer_commit(&s->text, err) : spikefile_close(&s->npy, err);
}

void spikes_abort(struct spikes *s) {
    if (!s->open)
        return;
    s->open = false;
    if (s->tsv)
        fsio_writer_abort(&s->text);
    else
        spikefile_abort(&s->npy);
}
