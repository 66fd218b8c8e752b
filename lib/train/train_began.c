#include "train/train_began.h"

#include "base/counted.h"
#include "store/digest.h"

/* Of its length, segments and labels. */
static void print_windows(const struct manifest_entry *e, char hex[DIGEST_HEX_SIZE]) {
    enum { PRINT = 16 };
    struct recording_info info;
    struct digest *d = digest_new();
    recording_info(e->recording, &info);
    const struct {
        const struct window_span *spans;
        int n;
    } parts[] = {{info.segments, info.n_segments}, {info.seizures, info.n_seizures}, {info.unknown, info.n_unknown}};
    hex[0] = '\0';
    if (!d)
        return;
    digest_update(d, &info.samples, sizeof info.samples);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        digest_update(d, &parts[i].n, sizeof parts[i].n);
        digest_update(d, parts[i].spans, (size_t)parts[i].n * sizeof *parts[i].spans);
    }
    digest_finish(d, hex);
    hex[PRINT] = '\0';
}

static bool takes_part(const struct train *t, int64_t i) {
    return (t->split[i] == PATIENT_TRAINING || t->split[i] == PATIENT_VALIDATION) && manifest_entry(t->manifest, i)->recording;
}

void train_began_put(const struct train *t, struct json_writer *w) {
    char hex[DIGEST_HEX_SIZE];
    json_begin_object(w, NULL);
    for (int64_t i = 0; i < manifest_count(t->manifest); i++)
        if (takes_part(t, i)) {
            print_windows(manifest_entry(t->manifest, i), hex);
            json_put_str(w, manifest_entry(t->manifest, i)->relative_path, hex);
        }
    json_end(w, '}');
}

/* A list of names for people: the first few. */
static void add_changed(struct str *names, int64_t n, const char *path) {
    enum { NAMED = 5 };
    if (n < NAMED)
        str_printf(names, "%s%.200s", n ? ", " : "", path);
    else if (n == NAMED)
        str_puts(names, ", …");
}

static void drop_newcomer(struct train *t, int64_t i) {
    t->validation_recordings -= t->role[i] == PATIENT_VALIDATION;
    t->split[i] = t->role[i] = PATIENT_UNUSED;
}

static int64_t name_gone(const struct train *t, struct str *names) {
    struct json_cursor at = {0};
    const struct json *value;
    const char *path;
    int64_t n = 0;
    while (json_next(t->began, &at, &path, &value)) {
        const int64_t i = manifest_find(t->manifest, path);
        if (i < 0 || !manifest_entry(t->manifest, i)->recording)
            add_changed(names, n++, path);
    }
    return n;
}

int train_began_compare(struct train *t, struct err *err) {
    OWNED(str_done) struct str changed = str_of(4096), fresh = str_of(4096), gone = str_of(4096);
    int64_t n_changed = 0, n_fresh = 0, n_gone;
    char hex[DIGEST_HEX_SIZE];
    if (!t->began)
        return 0;
    for (int64_t i = 0; i < manifest_count(t->manifest); i++) {
        const struct manifest_entry *e = manifest_entry(t->manifest, i);
        const char *saved = json_str(json_get(t->began, e->relative_path), NULL);
        if (!takes_part(t, i))
            continue;
        print_windows(e, hex);
        if (!saved) {
            add_changed(&fresh, n_fresh++, e->relative_path);
            drop_newcomer(t, i);
        } else if (strcmp(saved, hex) != 0) {
            add_changed(&changed, n_changed++, e->relative_path);
        }
    }
    if (n_changed)
        return err_set(
            err, ERR_PRECONDITION,
            "the labels or the length of %s changed since this training began (%.600s): put the earlier files back to go on, "
            "or submit a new job",
            counted(n_changed, "recording").text, str_cstr(&changed));
    if (n_fresh)
        task_log(&t->env, TASK_WARN, "%s came after this training began and are not used: %s", counted(n_fresh, "recording").text,
                 str_cstr(&fresh));
    if ((n_gone = name_gone(t, &gone)))
        task_log(&t->env, TASK_WARN, "%s that this training began with cannot be used any more: %s",
                 counted(n_gone, "recording").text, str_cstr(&gone));
    return 0;
}
