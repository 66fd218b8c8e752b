#include "daemon/page/job_files.h"

#include "daemon/jobs/jobdb.h"
#include "daemon/page/chart.h"
#include "plot/course.h"

enum {
    PATH_SIZE = 4096,
    PICTURES = 40,
    PICTURE_BYTES = 16 << 20,
    LOG_BYTES = 48 * 1024,
    CURVE_BYTES = 16 << 20,
    CURVE_POINTS = 4000,
    EVENT_FILES = 20,
    EVENT_BYTES = 16 * 1024
};

struct job *job_record(const struct page_view *v, const char *id, struct err *err) {
    struct db *db = NULL;
    struct job *job = NULL;
    if (jobdb_open_reader(v->database, &db, err))
        return NULL;
    (void)jobdb_get(db, id, &job, err);
    db_close(db);
    if (!job || page_sees_job(v, job->owner))
        return job;
    job_free(job);
    err_set(err, ERR_NOT_FOUND, "there is no such job");
    return NULL;
}

/* ---- pictures ---- */

static bool directory_of(const struct page_view *v, const char *id, char ret[PATH_SIZE]) {
    struct err err;
    struct job *job = job_record(v, id, &err);
    const bool found = job && *job->directory && str_copy(ret, PATH_SIZE, job->directory);
    job_free(job);
    return found;
}

bool job_picture(struct html *h, const struct page_view *v, const char *path) {
    char id[JOB_ID_SIZE], directory[PATH_SIZE], file[PATH_SIZE];
    const char *name = strchr(path, '/');
    struct stat st;
    OWNED_MEMORY char *text = NULL;
    size_t len = 0;
    if (!name || !str_format(id, sizeof id, "%.*s", (int)(name - path), path) || !str_ends(name, ".svg") ||
        !fsio_is_below(name + 1) || strstr(name, "/.") || !directory_of(v, id, directory) ||
        !str_format(file, sizeof file, "%s%s", directory, name))
        return false;
    if (lstat(file, &st) || !S_ISREG(st.st_mode) || fsio_read(file, PICTURE_BYTES, &text, &len, NULL))
        return false;
    h->out.max = PICTURE_BYTES + 1;
    str_append(&h->out, text, len);
    return true;
}

/* A walk over files; base: the job's id, or the folder. */
struct listing {
    struct html *h;
    const char *base;
    int n;
};

static int put_picture(void *ctx, const char *path, int64_t bytes, struct err *err) {
    struct listing *p = ctx;
    (void)err;
    if (!str_ends(path, ".svg") || bytes > PICTURE_BYTES || strstr(path, "/.") || *path == '.')
        return 0;
    if (p->n++ >= PICTURES)
        return 1;
    if (p->n == 1)
        html_put(p->h, "<section class=\"wide\" aria-labelledby=\"pictures\"><h2 id=\"pictures\">Pictures</h2><div "
                       "class=\"pictures\">");
    html_put(p->h, "<figure><a href=\"/jobs/");
    OWNED(html_done) struct html url = html_of();
    for (const char *at = path; *at;) { /* slashes stay */
        char part[NAME_MAX + 1];
        size_t n = strcspn(at, "/");
        str_format(part, sizeof part, "%.*s", (int)n, at);
        html_put_url(&url, part);
        at += n;
        if (*at == '/') {
            html_put(&url, "/");
            at++;
        }
    }
    const char *at = str_cstr(&url.out);
    html_put(p->h, "%s/%s\"><img src=\"/jobs/%s/%s\" loading=\"lazy\" alt=\"%s\"></a><figcaption>%s</figcaption></figure>\n",
             p->base, at, p->base, at, path, path);
    return 0;
}

static void put_end(struct html *h, bool more) {
    if (more)
        html_put(h, "<p class=\"hint\">The folder of the job has more.</p>");
    html_put(h, "</section>\n");
}

void job_put_pictures(struct html *h, const char *id, const char *directory) {
    struct listing p = {.h = h, .base = id};
    struct err err;
    (void)fsio_walk(directory, put_picture, &p, &err);
    if (!p.n)
        return;
    html_put(h, "</div>");
    put_end(h, p.n > PICTURES);
}

/* ---- curves ---- */

struct curve {
    double x[CURVE_POINTS], y[CURVE_POINTS];
    int n;
};

/* Full: every second point goes. */
static void add(struct curve *c, double x, double y) {
    if (c->n == CURVE_POINTS) {
        for (int i = 0; i < CURVE_POINTS / 2; i++) {
            c->x[i] = c->x[2 * i];
            c->y[i] = c->y[2 * i];
        }
        c->n = CURVE_POINTS / 2;
    }
    c->x[c->n] = x;
    c->y[c->n++] = y;
}

static void read_curves(const char *path, struct curve all[COURSE_FIGURES]) {
    OWNED_MEMORY char *text = NULL;
    OWNED(course_done) struct course course = {0};
    size_t len = 0;
    if (fsio_read(path, CURVE_BYTES, &text, &len, NULL) || course_read(&course, text, len, NULL))
        return;
    for (int i = 0; i < COURSE_FIGURES; i++)
        for (int k = 0; k < course.n; k++)
            if (isfinite(course.lines[k].values[i]))
                add(&all[i], course.lines[k].step, course.lines[k].values[i]);
}

void job_put_curves(struct html *h, const char *directory) {
    char path[PATH_SIZE];
    OWNED_MEMORY struct curve *all = calloc(COURSE_FIGURES, sizeof *all);
    struct chart_series series[COURSE_FIGURES];
    if (!all || !str_format(path, sizeof path, "%s/metrics.jsonl", directory))
        return;
    read_curves(path, all);
    for (int i = 0; i < COURSE_FIGURES; i++)
        series[i] = (struct chart_series){.name = course_figures[i].name, .x = all[i].x, .y = all[i].y, .n = all[i].n};
    if (!all[COURSE_LOSS].n)
        return;
    html_put(h, "<section class=\"wide\" aria-labelledby=\"curves\"><h2 id=\"curves\">Curves</h2><div class=\"graphs\">");
    chart_put_curves(h, series, all[COURSE_VALIDATION_LOSS].n ? 2 : 1, 0);
    if (all[COURSE_EVENT_F1].n || all[COURSE_AUROC].n)
        chart_put_curves(h, series + COURSE_EVENT_F1, 2, 1);
    html_put(h, "</div></section>\n");
}

void job_put_curves_of(struct html *h, struct job *const *jobs, int n) {
    char path[PATH_SIZE];
    OWNED_MEMORY struct curve *all = calloc((size_t)n * COURSE_FIGURES, sizeof *all);
    struct chart_series series[JOB_CURVES_MOST];
    bool any = false;
    for (int k = 0; all && k < n && k < JOB_CURVES_MOST; k++)
        if (str_format(path, sizeof path, "%s/metrics.jsonl", jobs[k]->directory))
            read_curves(path, all + (size_t)k * COURSE_FIGURES);
    for (int i = 0; all && i < COURSE_FIGURES; i++) {
        int points = 0;
        for (int k = 0; k < n && k < JOB_CURVES_MOST; k++) {
            const struct curve *c = &all[k * COURSE_FIGURES + i];
            series[k] = (struct chart_series){.name = jobs[k]->id, .x = c->x, .y = c->y, .n = c->n};
            points += c->n;
        }
        if (!points)
            continue;
        if (!any)
            html_put(h, "<section class=\"wide\" aria-labelledby=\"curves\"><h2 id=\"curves\">Curves</h2><div class=\"graphs\">");
        html_put(h, "<div><h3>%s</h3>", course_figures[i].name);
        chart_put_curves(h, series, n, i >= COURSE_EVENT_F1);
        html_put(h, "</div>");
        any = true;
    }
    if (any)
        html_put(h, "</div></section>\n");
    else
        html_put(h, "<p class=\"empty\">None of these jobs has curves.</p>\n");
}

/* ---- text ---- */

/* The end of a file, from the beginning of a line. */
static char *read_tail(const char *path, size_t most, size_t *ret_len) {
    struct stat st;
    OWNED_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode))
        return NULL;
    const off_t from = st.st_size > (off_t)most ? st.st_size - (off_t)most : 0;
    char *text = malloc(most + 1);
    ssize_t n = text ? pread(fd, text, most, from) : -1;
    if (n < 0) {
        free(text);
        return NULL;
    }
    const char *line = from ? memchr(text, '\n', (size_t)n) : NULL;
    const size_t skip = line ? (size_t)(line - text) + 1 : 0;
    memmove(text, text + skip, (size_t)n - skip);
    *ret_len = (size_t)n - skip;
    text[*ret_len] = '\0';
    return text;
}

void job_put_log(struct html *h, const char *directory) {
    char path[PATH_SIZE];
    size_t len = 0;
    OWNED_MEMORY char *text = str_format(path, sizeof path, "%s/log.txt", directory) ? read_tail(path, LOG_BYTES, &len) : NULL;
    html_put(h, "<section class=\"wide\" aria-labelledby=\"log\"><h2 id=\"log\">End of the log</h2>");
    if (len) {
        html_put(h, "<pre tabindex=\"0\">");
        html_put_text(h, text, len);
        html_put(h, "</pre>");
    } else {
        html_put(h, "<p class=\"empty\">nothing yet</p>");
    }
    html_put(h, "</section>\n");
}

static int put_events(void *ctx, const char *name, int64_t bytes, struct err *err) {
    struct listing *p = ctx;
    char path[PATH_SIZE];
    size_t len = 0;
    (void)err;
    if (!str_ends(name, ".tsv") || !bytes)
        return 0;
    if (p->n++ >= EVENT_FILES)
        return 1;
    OWNED_MEMORY char *text = str_format(path, sizeof path, "%s/%s", p->base, name) ? read_tail(path, EVENT_BYTES, &len) : NULL;
    if (p->n == 1)
        html_put(p->h, "<section class=\"wide\" aria-labelledby=\"events\"><h2 id=\"events\">Events</h2>");
    html_put(p->h, "<details><summary>%s</summary><pre>", name);
    html_put_text(p->h, text ? text : "", len);
    html_put(p->h, "</pre></details>\n");
    return 0;
}

void job_put_events(struct html *h, const char *directory) {
    char path[PATH_SIZE];
    struct err err;
    if (!str_format(path, sizeof path, "%s/events", directory) || !fsio_is_dir(path))
        return;
    struct listing p = {.h = h, .base = path};
    (void)fsio_walk(path, put_events, &p, &err);
    if (p.n)
        put_end(h, p.n > EVENT_FILES);
}
