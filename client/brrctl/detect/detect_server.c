#include "client/brrctl/detect/detect_server.h"

#include "base/counted.h"
#include "base/needed.h"
#include "brr/v1/jobs.pb-c.h"
#include "client/brrctl/brrctl.h"
#include "client/brrctl/detect/detect_table.h"
#include "eeg/events.h"
#include "store/digest.h"
#include "store/outputs.h"

enum { PATH_SIZE = 4096, MAX_TSV_BYTES = 256 << 20, JOB_TEXT_BYTES = 64 << 10 };

struct fetching {
    const struct arguments *o;
    const char *source; /* what the recordings' paths are relative to */
    struct detect_item *items;
    int n, capacity;
    struct str tsv; /* of the recording in hand, as far as it came */
    int failed;
    double hours; /* of the job */
    struct outputs_model seen;
    struct err err;
};

/* ---- the job ---- */

static int usage(const char *text) {
    fprintf(stderr, "brrctl: detect: %s\n", text);
    return EXIT_USAGE;
}

/* data.rename of --rename LABEL=NAME. */
static void put_rename(struct json_writer *w, const struct argument_list *list) {
    if (!list->n)
        return;
    json_begin_object(w, "rename");
    for (int i = 0; i < list->n; i++) {
        char label[256];
        const char *equals = strrchr(list->items[i], '=');
        if (equals && str_format(label, sizeof label, "%.*s", (int)(equals - list->items[i]), list->items[i]))
            json_put_str(w, label, equals + 1);
    }
    json_end(w, '}');
}

static int check_arguments(const struct arguments *o, bool job) {
    if (o->n_args != 1)
        return usage(
            "store://NAME/prefix (or one recording) and job:ID must be the only argument; use separate runs for the others");
    if (!detect_options_of(o)->output)
        return usage("--output is missing: the folder for the events files");
    if (job && (detect_options_of(o)->model || detect_options_of(o)->id_file || !isnan(detect_options_of(o)->on) ||
                !isnan(detect_options_of(o)->off) || detect_options_of(o)->format))
        return usage(
            "job:ID already has a model, thresholds, a format and an id; remove --model, --on, --off, --format and --id-file");
    if (detect_options_of(o)->bids)
        return usage("--bids takes recordings of this machine; fetch them, or remove it");
    if (detect_options_of(o)->chunk_samples > 0 || detect_options_of(o)->parallel > 0 ||
        !isnan(detect_options_of(o)->alarm_hop_s) || detect_options_of(o)->alarm_rate || detect_options_of(o)->partial > 0)
        return usage("--chunk-samples, --parallel, --partial, --alarm-hop and --alarm-rate have no effect when the daemon reads "
                     "the recordings; remove them");
    return 0;
}

/* A job file; what JSON writes is YAML. */
static void write_job(const struct arguments *o, const char *source, struct str *text) {
    char model[PATH_SIZE];
    struct json_writer w = json_object_to(text);
    json_put_str(&w, "kind", "detect");
    json_begin_object(&w, "data");
    json_put_str(&w, "source", source);
    put_rename(&w, &detect_options_of(o)->rename);
    if (detect_options_of(o)->unit)
        json_put_str(&w, "unit", detect_options_of(o)->unit);
    if (detect_options_of(o)->dataset)
        json_put_str(&w, "dataset", detect_options_of(o)->dataset);
    json_end(&w, '}');
    json_begin_object(&w, "detect");
    if (detect_options_of(o)->format)
        json_put_str(&w, "format", detect_options_of(o)->format);
    json_put_str(&w, "model", brrctl_ref(detect_model(o), model, sizeof model));
    if (!isnan(detect_options_of(o)->on))
        json_put_f64(&w, "on", detect_options_of(o)->on);
    if (!isnan(detect_options_of(o)->off))
        json_put_f64(&w, "off", detect_options_of(o)->off);
    json_end(&w, '}');
    json_end(&w, '}');
}

static int submit(const struct arguments *o, char *id, size_t id_size) {
    Brr__V1__JobFile file = BRR__V1__JOB_FILE__INIT;
    struct str text = str_of(JOB_TEXT_BYTES);
    write_job(o, o->args[0], &text);
    file.yaml = (char *)(uintptr_t)str_cstr(&text);
    file.name = "detect";
    int code = brrctl_queue(o, &file, detect_options_of(o)->id_file, id, id_size);
    str_done(&text);
    if (code)
        return code;
    fprintf(stderr, "brrctl: job %s; if brrctl ends before the job: brrctl detect job:%s --output %s\n", id, id,
            detect_options_of(o)->output);
    return 0;
}

/* Checks that the job is a detect job before its end is waited for. */
static int check_kind(const struct arguments *o, const char *id) {
    Brr__V1__GetJobRequest in = BRR__V1__GET_JOB_REQUEST__INIT;
    int code = EXIT_FAILED;
    in.id = (char *)(uintptr_t)id;
    OWNED_ANSWER Brr__V1__Job *job = brrctl_call(o, "/brr.v1.Jobs/Get", &in.base, &code);
    if (!job)
        return code;
    code = 0;
    if (strcmp(job->kind, "detect") != 0) {
        fprintf(stderr, "brrctl: job %s is of kind %s; detect accepts only job:ID of a detect job\n", id, job->kind);
        code = EXIT_FAILED;
    }
    return code;
}

/* ---- its results ---- */

/* True if a path stays below the folder it is joined to. */
static bool stays_below(const char *path) {
    for (const char *part = path; *part; part += strcspn(part, "/"), part += *part == '/')
        if (*part == '/' || (part[0] == '.' && part[1] == '.' && (part[2] == '/' || !part[2])))
            return false;
    return *path != '\0';
}

/* Where the recording lies: below the source, unless that is the recording itself. */
static int recording_path(const struct fetching *f, const char *recording, char *buf, size_t size, struct err *err) {
    const char *last = strrchr(f->source, '/');
    if (!last || strcmp(last + 1, recording) != 0)
        return fsio_join(buf, size, f->source, recording, err);
    return str_copy(buf, size, f->source) ? 0 : err_set(err, ERR_RANGE, "%.200s…: the path is too long", f->source);
}

static struct detect_item *add_item(struct fetching *f, const Brr__V1__JobEvents *m) {
    char name[PATH_SIZE], path[2 * PATH_SIZE], output[2 * PATH_SIZE];
    const struct events_format *format = events_format_find(m->format);
    if (f->n == f->capacity) {
        f->capacity = f->capacity ? 2 * f->capacity : 64;
        f->items = needed(realloc(f->items, sizeof *f->items * (size_t)f->capacity));
    }
    struct detect_item *item = &f->items[f->n];
    *item = (struct detect_item){.done = true,
                                 .n_events = (int)m->events,
                                 SAME_MEMBERS(*m, duration_s, seizure_s, suppressed_s),
                                 .highest = m->highest_probability,
                                 .learning_s = -1,
                                 SAME_MEMBERS(*m, threshold_on, bursts, largest_suppression)};
    if (!stays_below(m->recording))
        err_set(&f->err, ERR_INVALID, "the daemon sent the path '%.200s' of a recording, which is outside %s", m->recording,
                detect_options_of(f->o)->output);
    else if (!format)
        err_set(&f->err, ERR_UNSUPPORTED, "the daemon sent events in the format '%.40s', which this brrctl does not know",
                m->format);
    else if (!events_path(format, m->recording, name, sizeof name, &f->err) &&
             !fsio_join(output, sizeof output, detect_options_of(f->o)->output, name, &f->err) &&
             !recording_path(f, m->recording, path, sizeof path, &f->err)) {
        item->path = needed(strdup(path));
        item->output = needed(strdup(output));
        item->note = *m->note ? needed(strdup(m->note)) : NULL;
    }
    f->n++;
    return f->err.code ? NULL : item;
}

/* The file and its entry in the list of its folder, the entry first. */
static int write_events(const struct fetching *f, const char *path, struct err *err) {
    char sha256[DIGEST_HEX_SIZE];
    int rc;
    digest_bytes(str_cstr(&f->tsv), f->tsv.len, sha256);
    if ((rc = outputs_check(path, f->o->force, err)) || (rc = fsio_mkdirs_above(path, err)) ||
        (rc = outputs_announce(path, sha256, err)))
        return rc;
    return fsio_write_atomic(path, str_cstr(&f->tsv), f->tsv.len, err);
}

static bool on_events(void *ctx, const void *message) {
    struct fetching *f = ctx;
    const Brr__V1__JobEvents *m = message;
    str_append(&f->tsv, m->tsv.data, m->tsv.len);
    if (m->more)
        return true;
    struct detect_item *item = add_item(f, m);
    struct err err = {0};
    if (!item)
        return false;
    if (*m->error)
        brrctl_set_error(&item->err, BRR_PRECONDITION, m->error);
    else if (!str_ok(&f->tsv))
        brrctl_set_error(&item->err, BRR_EXHAUSTED, "out of memory for its events");
    else if (write_events(f, item->output, &err))
        brrctl_keep_error(&item->err, &err);
    f->failed += item->err.code != 0;
    str_clear(&f->tsv);
    if (f->o->json)
        detect_item_json(item, &f->seen);
    return true;
}

static int fetch(struct fetching *f, const char *id) {
    Brr__V1__JobEventsRequest in = BRR__V1__JOB_EVENTS_REQUEST__INIT;
    in.id = (char *)(uintptr_t)id;
    str_init(&f->tsv, MAX_TSV_BYTES);
    int code = brrctl_follow(f->o, "/brr.v1.Jobs/Events", &in.base, on_events, f);
    str_done(&f->tsv);
    if (!code && f->err.code)
        code = brrctl_fail(&f->err);
    if (!code && !f->o->json)
        detect_table_print(f->items, f->n, f->hours);
    if (!code && !f->o->json)
        detect_table_notes(f->items, f->n);
    if (!code && f->failed) {
        fprintf(stderr, "brrctl: %d of %s failed\n", f->failed, counted(f->n, "recording").text);
        code = EXIT_FAILED;
    }
    for (int i = 0; i < f->n; i++) {
        FREE_MEMBERS(f->items[i], path, output, note);
    }
    free(f->items);
    return code;
}

/* What the job's result says: hours, the model and how many of these people it has seen, and the folder that the paths of the
 * recordings are relative to, without a '/' at its end. */
static void take_result(struct fetching *f, const char *result, char *buf, size_t size) {
    OWNED_POINTER(json_free) struct json *json = NULL;
    if (!json_parse(result, strlen(result), "result", &json, NULL))
        str_copy(buf, size, json_str(json_get(json, "source"), ""));
    f->hours = json_f64(json_get(json, "hours"), NAN);
    f->seen = (struct outputs_model){.seen = (int)json_i64(json_get(json, "patients_seen"), -1),
                                     .patients = (int)json_i64(json_get(json, "patients"), 0)};
    str_copy(f->seen.name, sizeof f->seen.name, str_starts(f->o->args[0], "job:") ? f->o->args[0] : detect_model(f->o));
    str_copy(f->seen.sha256, sizeof f->seen.sha256, json_str(json_get(json, "model_sha256"), ""));
    for (size_t len = strlen(buf); len > 1 && buf[len - 1] == '/'; len--)
        buf[len - 1] = '\0';
}

int detect_on_server(const struct arguments *o) {
    bool job = str_starts(o->args[0], "job:");
    char id[64] = "", source[PATH_SIZE] = "";
    struct brrctl_end end = {0};
    struct err err;
    int code = check_arguments(o, job);
    if (code)
        return code;
    if (job && !str_copy(id, sizeof id, o->args[0] + strlen("job:")))
        return usage("the job id is too long");
    if (fsio_mkdirs(detect_options_of(o)->output, &err))
        return brrctl_fail(&err);
    code = job ? check_kind(o, id) : submit(o, id, sizeof id);
    if (!code)
        code = brrctl_watch(o, id, &end);
    if (code)
        return code;
    if (end.state != BRR__V1__JOB_STATE__JOB_STATE_SUCCEEDED) {
        fprintf(stderr, "brrctl: job %s %s%s%s\n", id, brr_job_state_name((int)end.state), *end.reason ? ": " : "", end.reason);
        if (end.state != BRR__V1__JOB_STATE__JOB_STATE_FAILED)
            fprintf(stderr, "brrctl: `brrctl resume %s` continues with the remaining recordings\n", id);
        return EXIT_FAILED;
    }
    struct fetching f = {.o = o, .source = source};
    take_result(&f, end.result, source, sizeof source);
    code = fetch(&f, id);
    return code || !*f.seen.sha256 ? code : outputs_set_model(detect_options_of(o)->output, &f.seen, &err) ? brrctl_fail(&err) : 0;
}
