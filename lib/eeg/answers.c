#include "eeg/answers.h"

#include "base/grow.h"
#include "base/order.h"
#include "formats/table.h"
#include "store/digest.h"
#include "store/outputs.h"

enum { MAX_TEXT = 256 << 20 };

#define MOTOR(onset)                                                                                                               \
    "|" onset "_m|" onset "_m_automatisms|" onset "_m_atonic|" onset "_m_clonic|" onset "_m_spasms|" onset                         \
    "_m_hyperkinetic|" onset "_m_myoclonic|" onset "_m_tonic"
#define NON_MOTOR(onset)                                                                                                           \
    "|" onset "_nm|" onset "_nm_autonomic|" onset "_nm_behavior|" onset "_nm_cognitive|" onset "_nm_emotional|" onset "_nm_"       \
    "sensory"
#define FOCAL(awareness) "|sz_foc_" awareness MOTOR("sz_foc_" awareness) NON_MOTOR("sz_foc_" awareness) "|sz_foc_" awareness "_um"
const char answer_types[] = "sz|sz_uc|sz_foc" FOCAL("a") FOCAL("ia")
    FOCAL("ua") "|sz_foc_f2b|sz_gen|sz_gen_m|sz_gen_m_tonicClonic|sz_gen_m_clonic|sz_gen_m_tonic|sz_gen_m_myoclonic|sz_gen_m_myoTC|"
                "sz_gen_m_myoAtonic|sz_gen_m_atonic|sz_gen_m_spasms|sz_gen_nm|sz_gen_nm_typical|sz_gen_nm_atypical|sz_gen_nm_"
                "myoclonic|sz_gen_nm_eyelid|sz_uo|sz_uo_m|sz_uo_m_tonicClonic|sz_uo_m_spasms|sz_uo_nm|sz_uo_nm_behavior";

void answers_done(struct answers *a) {
    free(a->items);
    *a = (struct answers){0};
}

/* ---- the list ---- */

static int add_answer(struct answers *a, const struct answer *answer, struct err *err) {
    if (a->n == LABELS_MAX_ROWS)
        return err_set(err, ERR_EXHAUSTED, "more than %d answers about one recording", LABELS_MAX_ROWS);
    if (!GROW(a->items, a->n, a->capacity))
        return err_set(err, ERR_EXHAUSTED, "out of memory for %zu answers", a->n);
    a->items[a->n++] = *answer;
    return 0;
}

ORDER_BY(by_answer_onset, struct answer, order_f64(x->onset_s, y->onset_s))

static bool is_background(const struct answer *a) { return !strcmp(a->type, ANSWER_BACKGROUND); }

static bool is_listed(const char *type) {
    const size_t n = strlen(type);
    for (const char *at = answer_types; n; at++) {
        const size_t len = strcspn(at, "|");
        if (len == n && !memcmp(at, type, n))
            return true;
        at += len;
        if (!*at)
            break;
    }
    return false;
}

/* UTF-8 without control characters: one cell of a table that every reader takes for UTF-8. */
static bool is_plain(const char *text) {
    while (*text) {
        const int step = str_utf8_step(text);
        if (!step || (unsigned char)*text < ' ' || *text == 0x7f)
            return false;
        text += step;
    }
    return true;
}

static int check_answer(const struct answer *a, double recording_s, struct err *err) {
    if (!(a->onset_s >= 0 && a->onset_s < a->end_s && a->end_s <= recording_s + 0.005))
        return err_set(err, ERR_INVALID, "%.2f to %.2f s is no span of a recording of %.2f s", a->onset_s, a->end_s, recording_s);
    if (a->confidence < 0 || a->confidence > 1)
        return err_set(err, ERR_INVALID, "the confidence %g is not between 0 and 1", a->confidence);
    if (!is_background(a) && strcmp(a->type, ANSWER_UNSURE) != 0 && !is_listed(a->type))
        return err_set(err, ERR_INVALID, "'%s' is no type of events; expected sz or a type of the ILAE such as sz_foc_ia", a->type);
    if (table_is_blank(a->reader))
        return err_set(err, ERR_INVALID, "an answer needs the name of its reader");
    if (!is_plain(a->reader) || !is_plain(a->comment))
        return err_set(err, ERR_INVALID,
                       "the reader's name and the comment are one line of UTF-8 each, without control characters");
    return 0;
}

const struct answer *answers_find(const struct answers *a, double onset_s, double end_s) {
    const struct answer *found = NULL;
    for (size_t i = 0; i < a->n && (!found || is_background(found)); i++)
        if (a->items[i].onset_s < end_s && a->items[i].end_s > onset_s && (!found || !is_background(&a->items[i])))
            found = &a->items[i];
    return found;
}

int answers_put(struct answers *a, const struct answer *answer, double recording_s, struct err *err) {
    struct answers kept = {0};
    int rc = check_answer(answer, recording_s, err);
    for (size_t i = 0; i < a->n && !rc; i++) {
        const struct answer *old = &a->items[i];
        struct answer before = *old, after = *old;
        if (old->end_s <= answer->onset_s || old->onset_s >= answer->end_s) {
            rc = add_answer(&kept, old, err);
            continue;
        }
        before.end_s = answer->onset_s;
        after.onset_s = answer->end_s;
        if (is_background(old) && before.onset_s < before.end_s)
            rc = add_answer(&kept, &before, err);
        if (is_background(old) && after.onset_s < after.end_s)
            rc = rc ? rc : add_answer(&kept, &after, err);
    }
    if (rc || (rc = add_answer(&kept, answer, err))) {
        answers_done(&kept);
        return rc;
    }
    SORT(kept.items, kept.n, by_answer_onset);
    answers_done(a);
    *a = kept;
    return 0;
}

/* ---- with the labels of the recording ---- */

static int take_labelled(struct answers *rows, const struct answers *a, const struct label_run *runs, size_t n, const char *type,
                         struct err *err) {
    int rc = 0;
    for (size_t i = 0; i < n && !rc; i++) {
        struct answer row = {.onset_s = runs[i].onset_s, .end_s = runs[i].end_s, .confidence = runs[i].confidence};
        str_copy(row.type, sizeof row.type, type ? type : *runs[i].code ? runs[i].code : "sz");
        if (!answers_find(a, row.onset_s, row.end_s))
            rc = add_answer(rows, &row, err);
    }
    return rc;
}

/* The answers and the labelled spans that none of them overlaps, in order. answers_done also after an error. */
static int make_rows(const struct answers *a, const struct labels *labels, struct answers *ret, struct err *err) {
    int rc = 0;
    *ret = (struct answers){0};
    for (size_t i = 0; i < a->n && !rc; i++)
        rc = add_answer(ret, &a->items[i], err);
    if (rc || (labels && ((rc = take_labelled(ret, a, labels->runs, labels->n_runs, NULL, err)) ||
                          (rc = take_labelled(ret, a, labels->unknown, labels->n_unknown, ANSWER_UNSURE, err)))))
        return rc;
    SORT(ret->items, ret->n, by_answer_onset);
    return 0;
}

int answers_complete(struct answers *a, const char *reader, double recording_s, const struct labels *labels, struct err *err) {
    OWNED(answers_done) struct answers rows = {0};
    struct answer rest = {.end_s = recording_s, .confidence = NAN, .type = ANSWER_BACKGROUND};
    str_copy(rest.reader, sizeof rest.reader, reader);
    int rc = check_answer(&rest, recording_s, err);
    rc = rc ? rc : make_rows(a, labels, &rows, err);
    for (size_t i = 0; i <= rows.n && !rc; i++) {
        rest.end_s = i < rows.n ? rows.items[i].onset_s : recording_s;
        rc = rest.onset_s < rest.end_s ? add_answer(a, &rest, err) : 0;
        rest.onset_s = i < rows.n ? fmax(rest.onset_s, rows.items[i].end_s) : recording_s;
    }
    SORT(a->items, a->n, by_answer_onset);
    return rc;
}

/* ---- the file ---- */

static int take_answer_row(const struct table *t, const int columns[6], struct answers *ret, struct err *err) {
    struct answer a;
    double duration_s;
    int rc;
    const char *reader = table_field(t, columns[4]), *comment = table_field(t, columns[5]);
    if (columns[4] < 0 || table_is_blank(reader))
        return 0;
    if ((rc = table_number(t, columns[0], false, &a.onset_s, err)) || (rc = table_number(t, columns[1], false, &duration_s, err)) ||
        (rc = table_number(t, columns[3], true, &a.confidence, err)))
        return rc;
    if (!(duration_s > 0))
        return err_set(err, ERR_INVALID, "%s:%d: the duration of an answer is %s; expected seconds above 0", t->path, t->line,
                       table_field(t, columns[1]));
    a.end_s = round((a.onset_s + duration_s) * 100) / 100;
    str_copy(a.type, sizeof a.type, table_field(t, columns[2]));
    str_copy(a.reader, sizeof a.reader, reader);
    str_copy(a.comment, sizeof a.comment, columns[5] < 0 || table_is_blank(comment) ? "" : comment);
    return add_answer(ret, &a, err);
}

int answers_read(const char *path, struct answers *ret, struct err *err) {
    static const char *const names[] = {"onset", "duration", "eventType", "confidence", "reader", "comment"};
    struct answers found = {0};
    struct table t;
    int columns[6];
    bool more = true;
    *ret = found;
    if (!fsio_exists(path))
        return 0;
    int rc = table_open(&t, path, '\t', NULL, NULL, err);
    if (rc)
        return rc;
    for (int i = 0; i < 6; i++) {
        columns[i] = table_column(&t, names[i]);
        rc = rc || i >= 4 ? rc : table_require(&t, names[i], &columns[i], err);
    }
    while (!rc && !(rc = table_next(&t, &more, err)) && more)
        rc = take_answer_row(&t, columns, &found, err);
    table_close(&t);
    if (rc)
        answers_done(&found);
    else if (found.n)
        SORT(found.items, found.n, by_answer_onset);
    *ret = found;
    return rc;
}

/* In quotes where a reader of tables would take a part of the text for a quote. */
static void put_cell(struct str *out, const char *text) {
    const char *const quote = strchr(text, '"') ? "\"" : "";
    str_printf(out, "\t%s", *text ? quote : "n/a");
    for (; *text; text++) {
        str_append(out, text, 1);
        str_puts(out, *text == '"' ? quote : "");
    }
    str_puts(out, quote);
}

static void put_answer(struct str *out, const struct answer *a, const struct events_header *header) {
    /* The end is rounded, not the duration, so that onset + duration reads back as the end. */
    const double onset = round(a->onset_s * 100) / 100, end = round(a->end_s * 100) / 100;
    if (!(onset < end))
        return;
    str_printf(out, "%.2f\t%.2f\t%s\t", onset, end - onset, a->type);
    if (isfinite(a->confidence))
        str_printf(out, "%.2f", a->confidence);
    else
        str_puts(out, "n/a");
    str_printf(out, "\tn/a\t%s\t%.2f\t%s", header->start_text ? header->start_text : "n/a", header->recording_s, a->type);
    put_cell(out, a->reader);
    put_cell(out, a->comment);
    str_puts(out, "\n");
}

static void put_unjudged(struct str *out, double from_s, double to_s, const struct events_header *header) {
    const struct answer unjudged = {.onset_s = from_s, .end_s = to_s, .confidence = NAN, .type = ANSWER_UNSURE};
    if (from_s < to_s)
        put_answer(out, &unjudged, header);
}

static void put_rows(struct str *out, const struct answers *rows, const struct answers_file *file) {
    double at_s = 0;
    str_puts(out, "onset\tduration\teventType\tconfidence\tchannels\tdateTime\trecordingDuration\ttrial_type\treader\tcomment\n");
    for (size_t i = 0; i < rows->n; i++) {
        if (!file->labels)
            put_unjudged(out, at_s, rows->items[i].onset_s, file->header);
        put_answer(out, &rows->items[i], file->header);
        at_s = fmax(at_s, rows->items[i].end_s);
    }
    if (!file->labels)
        put_unjudged(out, at_s, file->header->recording_s, file->header);
}

int answers_write(const struct answers *a, const struct answers_file *file, struct err *err) {
    OWNED(str_done) struct str text = str_of(MAX_TEXT);
    OWNED(answers_done) struct answers rows = {0};
    char sha256[DIGEST_HEX_SIZE];
    int rc = outputs_check(file->path, file->force, err);
    if (rc || (rc = make_rows(a, file->labels, &rows, err)))
        return rc;
    put_rows(&text, &rows, file);
    if (!str_ok(&text) || !digest_bytes(str_cstr(&text), text.len, sha256))
        return err_set(err, ERR_EXHAUSTED, "out of memory for the answers in %s", file->path);
    /* A copy of answers: brrd may replace it, and it holds labels. Listed before and after, so that it is brrd's at any moment. */
    if ((rc = fsio_mkdirs_above(file->path, err)) || (rc = outputs_announce_copy(file->path, sha256, err)) ||
        (rc = fsio_write_text(file->path, &text, err)))
        return rc;
    return outputs_add_copy(file->path, err);
}
