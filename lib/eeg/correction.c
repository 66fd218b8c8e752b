#include "eeg/correction.h"

#include "formats/eegfile.h"
#include "store/outputs.h"

#define LOCK_FILE ".brrd-answers.lock"
enum { PATH_SIZE = 4096, LOCK_TRIES = 200, LOCK_PAUSE_NS = 10 * 1000 * 1000 };

const char *const correction_verbs[CORRECTION_VERBS] = {"accept", "reject", "unsure", "add", "done", "withdraw"};

bool correction_verb_find(const char *name, enum correction_verb *ret) {
    const int i = STR_AMONG(name, correction_verbs);
    if (i >= 0)
        *ret = (enum correction_verb)i;
    return i >= 0;
}

int correction_path(const struct correction_place *place, char *ret, size_t size, struct err *err) {
    char name[PATH_SIZE];
    int rc = events_path(events_format_find("tsv"), place->relative, name, sizeof name, err);
    return rc ? rc : fsio_join(ret, size, place->folder, name, err);
}

/* Without a file: "". */
static int read_revision(const char *path, correction_revision ret, struct err *err) {
    *ret = '\0';
    return fsio_exists(path) ? digest_file(path, ret, err) : 0;
}

int correction_read(const struct correction_place *place, struct answers *ret, correction_revision ret_revision, struct err *err) {
    correction_revision revision;
    char path[PATH_SIZE];
    *ret = (struct answers){0};
    int rc = correction_path(place, path, sizeof path, err);
    /* The revision first: answers that are newer than it cost the next save a second try, and no answer. */
    if (rc || (rc = read_revision(path, ret_revision ? ret_revision : revision, err)))
        return rc;
    return answers_read(path, ret, err);
}

/* `to` is a name of the file `from` or has the same bytes. */
static int check_link(const char *from, const char *to, struct err *err) {
    struct stat a, b;
    char of_from[DIGEST_HEX_SIZE], of_to[DIGEST_HEX_SIZE];
    int rc;
    if (stat(from, &a) < 0 || stat(to, &b) < 0)
        return err_errno(err, errno, "cannot compare %.150s with %.150s", to, from);
    if (a.st_ino == b.st_ino && a.st_dev == b.st_dev)
        return 0;
    if (a.st_size == b.st_size) {
        if ((rc = digest_file(from, of_from, err)) || (rc = digest_file(to, of_to, err)))
            return rc;
        if (!strcmp(of_from, of_to))
            return 0;
    }
    return err_set(err, ERR_EXISTS,
                   "%.150s is another file than %.150s, which was replaced or moved since; move the former away with its label "
                   "file to answer anew",
                   to, from);
}

static int link_file(const char *from, const char *to, struct err *err) {
    return fsio_exists(to) ? check_link(from, to, err) : fsio_link(from, to, err);
}

/* The recording and the files that belong to it under the same names in the folder. */
static int link_recording(const struct correction_place *place, struct err *err) {
    struct eegfile_companions companions = {.n = 0};
    char to[PATH_SIZE], from[PATH_SIZE], part[PATH_SIZE];
    const char *eeg = place->eeg;
    int rc;
    if ((rc = fsio_join(to, sizeof to, place->folder, place->relative, err)) || (rc = fsio_mkdirs_above(to, err)) ||
        (rc = link_file(eeg, to, err)) || (eegfile_has_parts(eeg) && (rc = eegfile_list_companions(eeg, &companions, err))))
        return rc;
    for (int i = 0; i < companions.n && !rc; i++) {
        const char *name = fsio_basename(companions.names[i]); /* a header that names another folder names none of this recording */
        if (!str_format(from, sizeof from, "%.*s%s", (int)(fsio_basename(eeg) - eeg), eeg, name) ||
            !str_format(part, sizeof part, "%.*s%s", (int)(fsio_basename(to) - to), to, name))
            return err_set(err, ERR_RANGE, "the path of %.200s is too long", name);
        rc = fsio_exists(from) ? link_file(from, part, err) : 0;
    }
    return rc;
}

static int withdraw_answer(struct answers *a, const struct answer *gone, struct err *err) {
    for (size_t i = 0; i < a->n; i++)
        if (fabs(a->items[i].onset_s - gone->onset_s) < 0.006 && fabs(a->items[i].end_s - gone->end_s) < 0.006) {
            memmove(&a->items[i], &a->items[i + 1], (--a->n - i) * sizeof *a->items);
            return 0;
        }
    return err_set(err, ERR_NOT_FOUND, "nobody has answered %.2f to %.2f s", gone->onset_s, gone->end_s);
}

/* Puts an answer. Without c->replace an answer of a seizure or of unsure time that it overlaps is the error EXISTS; *a then counts
 * for nothing. */
static int put_correction(struct answers *a, const struct answer *put, const struct correction *c, double recording_s,
                          struct err *err) {
    const struct answer *found = c->replace ? NULL : answers_find(a, put->onset_s, put->end_s);
    struct answer old = {0};
    if (found && strcmp(found->type, ANSWER_BACKGROUND) != 0)
        old = *found;
    int rc = answers_put(a, put, recording_s, err);
    return rc || !*old.type
               ? rc
               : err_set(err, ERR_EXISTS,
                         "%.2f to %.2f s has the answer %s by %s already; nothing was saved: ask to replace it (brrctl: --replace)",
                         old.onset_s, old.end_s, old.type, old.reader);
}

static int apply_correction(struct answers *a, const struct correction *c, double recording_s, const struct labels *labels,
                            struct err *err) {
    struct answer answer = c->answer, rest = c->answer;
    int rc = 0;
    if (c->verb == CORRECTION_DONE)
        return answers_complete(a, answer.reader, recording_s, labels, err);
    if (c->verb == CORRECTION_WITHDRAW)
        return withdraw_answer(a, &answer, err);
    if (c->verb == CORRECTION_REJECT || c->verb == CORRECTION_UNSURE)
        str_copy(answer.type, sizeof answer.type, c->verb == CORRECTION_REJECT ? ANSWER_BACKGROUND : ANSWER_UNSURE);
    else if (!*answer.type)
        str_copy(answer.type, sizeof answer.type, "sz");
    if (c->has_event && c->verb == CORRECTION_ACCEPT) {
        rest.onset_s = c->event_onset_s;
        rest.end_s = fmin(c->event_end_s, recording_s);
        rest.confidence = NAN;
        rest.comment[0] = '\0';
        str_copy(rest.type, sizeof rest.type, ANSWER_BACKGROUND);
        rc = put_correction(a, &rest, c, recording_s, err);
    }
    return rc ? rc : put_correction(a, &answer, c, recording_s, err);
}

/* A link without a label file would be a recording without labels: it goes if the file cannot be written. */
static int write_answers(const struct correction_place *place, const struct answers *answers, const struct answers_file *file,
                         struct err *err) {
    char to[PATH_SIZE];
    int rc = fsio_join(to, sizeof to, place->folder, place->relative, err);
    if (rc)
        return rc;
    const bool linked = fsio_exists(to);
    if (!(rc = link_recording(place, err)))
        rc = answers_write(answers, file, err);
    if (rc && !linked && !fsio_exists(file->path))
        unlink(to);
    return rc;
}

/* With the folder locked. */
static int save_locked(const struct correction_place *place, const struct correction *c, const char *seen, struct answers *answers,
                       struct err *err) {
    OWNED_POINTER(eegfile_close) struct eegfile *recording = NULL;
    OWNED(labels_done) struct labels labels = {0};
    correction_revision revision;
    char path[PATH_SIZE], start[32];
    int rc;
    if ((rc = eegfile_open_header(place->eeg, &recording, err)) || (rc = labels_load(place->eeg, "auto", NULL, &labels, err)) ||
        (rc = correction_path(place, path, sizeof path, err)) || (rc = correction_read(place, answers, revision, err)))
        return rc;
    if (seen && strcmp(seen, revision) != 0)
        return err_set(err, ERR_ABORTED, "the answers about %.200s have changed since they were read", fsio_basename(place->eeg));
    const char *text = eegfile_start_text(recording, start, sizeof start);
    const struct events_header header = {.start_text = strcmp(text, "n/a") != 0 ? text : NULL,
                                         .recording_s = eegfile_info(recording)->duration_s};
    const struct answers_file file = {
        .path = path, .header = &header, .labels = labels.source == LABELS_NONE ? NULL : &labels, .force = place->force};
    if ((rc = apply_correction(answers, c, header.recording_s, file.labels, err)) || (rc = outputs_check(path, place->force, err)))
        return rc;
    return write_answers(place, answers, &file, err);
}

static int lock_folder(const char *folder, int *ret, struct err *err) {
    const struct timespec pause = {.tv_nsec = LOCK_PAUSE_NS};
    char path[PATH_SIZE];
    int rc;
    if ((rc = fsio_mkdirs(folder, err)) || (rc = fsio_join(path, sizeof path, folder, LOCK_FILE, err)))
        return rc;
    for (int i = 0; (rc = fsio_lock(path, ret, err)) == ERR_PRECONDITION && i < LOCK_TRIES; i++)
        nanosleep(&pause, NULL);
    return rc == ERR_PRECONDITION ? err_set(err, ERR_UNAVAILABLE, "another program is saving answers in %s; try again", folder)
                                  : rc;
}

int correction_save(const struct correction_place *place, const struct correction *c, const char *seen, struct answers *ret,
                    correction_revision ret_revision, struct err *err) {
    OWNED(answers_done) struct answers answers = {0};
    char path[PATH_SIZE];
    int lock, rc = lock_folder(place->folder, &lock, err);
    if (rc)
        return rc;
    rc = save_locked(place, c, seen, &answers, err);
    if (!rc && !(rc = correction_path(place, path, sizeof path, err)))
        rc = read_revision(path, ret_revision, err);
    close(lock);
    if (rc)
        return rc;
    *ret = answers;
    answers = (struct answers){0};
    return 0;
}
