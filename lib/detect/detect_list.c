#include "detect/detect_list.h"

#include "base/json.h"
#include "eeg/events.h"

enum { FLUSH_BYTES = 1 << 20 };

struct detect_list {
    int fd;
    char path[DETECT_LIST_PATH];
};

static void put_row(const struct detect_row *row, struct str *out) {
    struct json_writer w = json_to(out);
    json_begin_object(&w, NULL);
    json_put_str(&w, "recording", row->recording);
    if (*row->error) {
        json_put_str(&w, "error", row->error);
    } else {
        JSON_MEMBERS(&w, *row, duration_s, events, seizure_s, suppressed_s, bursts, largest_suppression);
        json_put_f64(&w, "highest_probability", row->highest);
        json_put_f64(&w, "threshold_on", row->threshold_on);
        if (*row->note)
            json_put_str(&w, "note", row->note);
        if (*row->mislabelled)
            json_put_str(&w, "mislabelled", row->mislabelled);
        if (*row->format)
            json_put_str(&w, "format", row->format);
        JSON_MEMBERS(&w, *row, key, model);
    }
    json_end(&w, '}');
    str_puts(out, "\n");
}

int detect_row_read(const char *line, size_t len, struct detect_row *ret, struct err *err) {
    struct json *json = NULL;
    if (json_parse(line, len, DETECT_LIST_NAME, &json, NULL))
        return err_set(err, ERR_DATA_LOSS, "%s holds a line that is no JSON object", DETECT_LIST_NAME);
    const char *recording = json_str(json_get(json, "recording"), "");
    *ret = (struct detect_row){.duration_s = json_f64(json_get(json, "duration_s"), 0),
                               .seizure_s = json_f64(json_get(json, "seizure_s"), 0),
                               .suppressed_s = json_f64(json_get(json, "suppressed_s"), 0),
                               .largest_suppression = json_f64(json_get(json, "largest_suppression"), 0),
                               .highest = json_f64(json_get(json, "highest_probability"), NAN),
                               .threshold_on = json_f64(json_get(json, "threshold_on"), NAN),
                               .bursts = json_i64(json_get(json, "bursts"), 0),
                               .events = json_i64(json_get(json, "events"), 0)};
    str_copy(ret->error, sizeof ret->error, json_str(json_get(json, "error"), ""));
    str_copy(ret->note, sizeof ret->note, json_str(json_get(json, "note"), ""));
    str_copy(ret->mislabelled, sizeof ret->mislabelled, json_str(json_get(json, "mislabelled"), ""));
    str_copy(ret->format, sizeof ret->format, json_str(json_get(json, "format"), ""));
    bool fits = *recording && str_copy(ret->recording, sizeof ret->recording, recording) &&
                str_copy(ret->key, sizeof ret->key, json_str(json_get(json, "key"), "")) &&
                str_copy(ret->model, sizeof ret->model, json_str(json_get(json, "model"), ""));
    json_free(json);
    return fits ? 0 : err_set(err, ERR_DATA_LOSS, "%s holds a line without a recording", DETECT_LIST_NAME);
}

int detect_events_path(const char *directory, const struct detect_row *row, char *ret, size_t size, struct err *err) {
    char name[DETECT_LIST_PATH];
    const struct events_format *format = events_format_find(row->format);
    if (!format)
        return err_set(err, ERR_DATA_LOSS, "%s names the unknown event format '%s'", DETECT_LIST_NAME, row->format);
    int rc = events_path(format, row->recording, name, sizeof name, err);
    if (rc)
        return rc;
    if (!str_format(ret, size, "%s/events/%s", directory, name))
        return err_set(err, ERR_RANGE, "path too long: %.200s…", row->recording);
    return 0;
}

int detect_list_lines(const char *path, detect_list_line_fn *visit, void *ctx, struct err *err) {
    OWNED_FILE FILE *f = fopen(path, "re");
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    int rc = 0;
    if (!f)
        return errno == ENOENT ? 0 : err_errno(err, errno, "cannot open %s", path);
    while (!rc && (n = getline(&line, &room, f)) > 0 && line[n - 1] == '\n')
        rc = visit(ctx, line, (size_t)n - 1, err);
    free(line);
    return rc;
}

struct row_visit {
    detect_row_fn *visit;
    void *ctx;
    struct detect_row *row;
};

/* A damaged line is passed over. */
static int visit_row(void *ctx, const char *line, size_t len, struct err *err) {
    const struct row_visit *v = ctx;
    return detect_row_read(line, len, v->row, NULL) ? 0 : v->visit(v->ctx, v->row, err);
}

int detect_list_read(const char *path, detect_row_fn *visit, void *ctx, struct err *err) {
    struct row_visit v = {visit, ctx, malloc(sizeof *v.row)};
    int rc = v.row ? detect_list_lines(path, visit_row, &v, err) : err_set(err, ERR_EXHAUSTED, "out of memory for %s", path);
    free(v.row);
    return rc;
}

/* Bytes up to and with the last line end. */
static int64_t whole_lines(int fd, int64_t size) {
    char block[4096];
    while (size > 0) {
        int64_t from = size > (int64_t)sizeof block ? size - (int64_t)sizeof block : 0;
        ssize_t n = pread(fd, block, (size_t)(size - from), from);
        for (ssize_t i = n; i > 0; i--)
            if (block[i - 1] == '\n')
                return from + i;
        size = from;
    }
    return 0;
}

int detect_list_begin(const char *path, struct detect_list **ret, struct err *err) {
    struct detect_list *list = calloc(1, sizeof *list);
    if (!list)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %s", path);
    str_copy(list->path, sizeof list->path, path);
    list->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    int64_t size = list->fd < 0 ? -1 : lseek(list->fd, 0, SEEK_END);
    if (size < 0 || ftruncate(list->fd, whole_lines(list->fd, size))) {
        int rc = err_errno(err, errno, "cannot write %s", path);
        detect_list_end(list);
        return rc;
    }
    *ret = list;
    return 0;
}

int detect_list_add_line(struct detect_list *list, const struct str *line, struct err *err) {
    if (!str_ok(line) || line->len > DETECT_LIST_LINE)
        return err_set(err, ERR_RANGE, "a line of %s would be longer than %d bytes", list->path, DETECT_LIST_LINE);
    ssize_t n = write(list->fd, str_cstr(line), line->len);
    if (n != (ssize_t)line->len || fdatasync(list->fd))
        return err_errno(err, n < 0 || n == (ssize_t)line->len ? errno : ENOSPC, "cannot write %s", list->path);
    return 0;
}

int detect_list_add(struct detect_list *list, const struct detect_row *row, struct err *err) {
    OWNED(str_done) struct str text = str_of(DETECT_LIST_LINE);
    put_row(row, &text);
    return detect_list_add_line(list, &text, err);
}

void detect_list_end(struct detect_list *list) {
    if (!list)
        return;
    if (list->fd >= 0)
        close(list->fd);
    free(list);
}

int detect_list_write(const char *path, int64_t n, detect_list_row_fn *row, void *ctx, struct err *err) {
    struct fsio_writer writer;
    struct str text = str_of(2 * FLUSH_BYTES);
    struct detect_row *one = malloc(sizeof *one);
    int rc = one ? fsio_writer_open(&writer, path, err) : err_set(err, ERR_EXHAUSTED, "out of memory for %s", path);
    if (rc) {
        free(one);
        return rc;
    }
    for (int64_t i = 0; i < n && !rc; i++) {
        row(ctx, i, one);
        put_row(one, &text);
        if (text.len < FLUSH_BYTES && i + 1 < n)
            continue;
        rc = str_ok(&text) ? fsio_writer_write(&writer, str_cstr(&text), text.len, err)
                           : err_set(err, ERR_EXHAUSTED, "out of memory writing %s", path);
        str_clear(&text);
    }
    str_done(&text);
    free(one);
    if (!rc)
        return fsio_writer_commit(&writer, err);
    fsio_writer_abort(&writer);
    return rc;
}
