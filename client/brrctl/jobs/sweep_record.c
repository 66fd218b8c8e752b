#include "client/brrctl/jobs/sweep.h"

enum { MAX_RECORD_BYTES = 1 << 20 };
#define HEADING "brrctl sweep "

static uint64_t record_hash(uint64_t hash, const char *text) {
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return (hash ^ 0xff) * UINT64_C(0x100000001b3); /* between two texts */
}

/* Two sweeps with the same number (FNV-1a) have the same jobs, whatever is asked of their table. */
static uint64_t identity(const struct sweep *s) {
    uint64_t hash = record_hash(UINT64_C(0xcbf29ce484222325), s->file.text);
    for (size_t i = 0; i < s->n_common; i++)
        hash = record_hash(hash, s->file.overrides[i]);
    for (int i = 0; i < s->n_axes; i++) {
        hash = record_hash(hash, s->axes[i].key);
        for (int k = 0; k < s->axes[i].n; k++)
            hash = record_hash(hash, s->axes[i].values[k]);
    }
    for (int i = 0; i < s->n_patients; i++)
        hash = record_hash(hash, s->patients[i]);
    return hash + (uint64_t)s->n_folds;
}

int sweep_record_write(const struct sweep *s, const char *path, struct err *err) {
    OWNED(str_done) struct str text = str_of(MAX_RECORD_BYTES);
    str_printf(&text, HEADING "%016llx\ntraining\tevaluation\n", (unsigned long long)identity(s));
    for (int i = 0; i < s->n_members; i++)
        str_printf(&text, "%s\t%s\n", *s->members[i].job ? s->members[i].job : "-",
                   *s->members[i].evaluation ? s->members[i].evaluation : "-");
    return fsio_write_text(path, &text, err);
}

/* Copies the field at *at, which ends at a tab or line feed, and moves *at behind it; "-" is none. */
static bool record_field(const char **at, char *out, size_t size) {
    size_t n = strcspn(*at, "\t\n");
    if (!(*at)[n] || n >= size)
        return false;
    memcpy(out, *at, n);
    out[n] = '\0';
    if (!strcmp(out, "-"))
        *out = '\0';
    *at += n + 1;
    return true;
}

static int read_lines(struct sweep *s, int n, const char *text, const char *path, struct err *err) {
    char heading[sizeof HEADING + 16], found[sizeof heading], skipped[32];
    str_format(heading, sizeof heading, HEADING "%016llx", (unsigned long long)identity(s));
    if (!record_field(&text, found, sizeof found) || strcmp(found, heading) != 0)
        return err_set(err, ERR_PRECONDITION,
                       "%.200s is the record of another sweep: its job file, --set, --grid or patients differ; name another file",
                       path);
    bool fine = record_field(&text, skipped, sizeof skipped) && record_field(&text, skipped, sizeof skipped);
    for (int i = 0; i < n && fine && *text; i++)
        fine = record_field(&text, s->members[i].job, sizeof s->members[i].job) &&
               record_field(&text, s->members[i].evaluation, sizeof s->members[i].evaluation);
    return fine && !*text ? 0 : err_set(err, ERR_INVALID, "%.200s: a line is not that of a sweep's record", path);
}

int sweep_record_read(struct sweep *s, int n, const char *path, struct err *err) {
    OWNED_MEMORY char *text = NULL;
    size_t length = 0;
    int rc = fsio_read(path, MAX_RECORD_BYTES, &text, &length, err);
    if (rc == ERR_NOT_FOUND)
        return 0;
    return rc ? rc : read_lines(s, n, text, path, err);
}
