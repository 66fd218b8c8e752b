#include "daemon/viewer/corrections.h"

enum { PATH_SIZE = 4096, FILE_BYTES = 8 << 20 };

static void put_one(struct json_writer *w, const struct answer *a) {
    json_begin_object(w, NULL);
    json_put_f64(w, "onset", a->onset_s);
    json_put_f64(w, "end", a->end_s);
    JSON_MEMBERS(w, *a, type, confidence, reader, comment);
    json_end(w, '}');
}

static int find_place(const struct recording_entry *r, struct correction_place *ret, struct err *err) {
    return recording_answers(r, ret)
               ? 0
               : err_set(err, ERR_PRECONDITION, "%s lies in the folder of the answers: open the recording that it is a link to",
                         recording_name(r));
}

int corrections_answer(struct recording_entry *r, const struct correction_form *form, struct str *out, struct err *err) {
    OWNED(answers_done) struct answers answers = {0};
    struct correction_place place;
    correction_revision revision;
    char path[PATH_SIZE];
    int rc;
    if ((rc = find_place(r, &place, err)) || (rc = correction_path(&place, path, sizeof path, err)) ||
        (rc = form ? correction_save(&place, &form->correction, form->seen, &answers, revision, err)
                   : correction_read(&place, &answers, revision, err)))
        return rc;
    struct json_writer w = json_object_to(out);
    json_put_str(&w, "revision", revision);
    json_put_str(&w, "file", path);
    json_begin_array(&w, "answers");
    for (size_t i = 0; i < answers.n; i++)
        put_one(&w, &answers.items[i]);
    json_end(&w, ']');
    json_end(&w, '}');
    str_puts(out, "\n");
    return str_ok(out) ? 0 : err_set(err, ERR_EXHAUSTED, "%s has too many answers for a page", path);
}

int corrections_export(struct recording_entry *r, struct str *out, struct err *err) {
    OWNED_MEMORY char *text = NULL;
    struct correction_place place;
    char path[PATH_SIZE];
    size_t len;
    int rc;
    if ((rc = find_place(r, &place, err)) || (rc = correction_path(&place, path, sizeof path, err)))
        return rc;
    if (!fsio_exists(path))
        return err_set(err, ERR_NOT_FOUND, "nobody has answered an event of %s yet", recording_name(r));
    if ((rc = fsio_read(path, FILE_BYTES, &text, &len, err)))
        return rc;
    str_append(out, text, len);
    return str_ok(out) ? 0 : err_set(err, ERR_EXHAUSTED, "%s is too long for a page", path);
}
