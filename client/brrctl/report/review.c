/* review DIR: what is worth a reader's look in recordings, and the answers of readers as label files that training reads. DIR has
 * the names of its places (REVIEW_FILE), what models found (.found/MODEL), and, of each recording with an answer, a link and its
 * label file. Files of others are never replaced. */

#include "base/counted.h"
#include "base/needed.h"
#include "base/order.h"
#include "client/brrctl/detect/detect_server.h"
#include "client/brrctl/listing.h"
#include "client/brrctl/output.h"
#include "client/brrctl/report/review_queue.h"
#include "client/brrctl/report/viewing.h"
#include "eeg/correction.h"

struct review_options {
    struct argument_list models, found;
    const char *eeg, *type, *reader, *comment;
    double on, onset_s, end_s, confidence;
    int64_t most, parallel;
    bool all, replace;
};
#define OPTIONS struct review_options
static const struct argument rows[] = {
    TEXT("--eeg", eeg, "DIR", "begin a review of these recordings, or look for events in them again"),
    LIST("--model", models, "REF", "with --eeg: a model to run over them; default ward; repeat it for each"),
    LIST("--found", found, "DIR", "with --eeg: events that `brrctl detect` wrote; may be repeated"),
    NUMBER("--on", on, "P", "with --eeg: probability that begins an event; default: the model's", 0.0001, 0.9999),
    INTEGER("--parallel", parallel, "N", "with --eeg: recordings processed at the same time, default 2", 1, 16),
    INTEGER("--most", most, "N", "list so many events; default 20, with --json all", 1, 1e9),
    FLAG("--all", all, "list events with an answer too"),
    NUMBER("--onset", onset_s, "S", "where it begins, in seconds of the recording", 0, 1e9),
    NUMBER("--end", end_s, "S", "where it ends", 0, 1e9),
    TEXT("--type", type, "TYPE", "accept, add: sz (the default) or a type of the ILAE, such as sz_foc_ia_nm"),
    NUMBER("--confidence", confidence, "P", "how sure the reader is, 0 to 1", 0, 1),
    TEXT("--comment", comment, "TEXT", "one line"),
    FLAG("--replace", replace, "answer in place of the answers that this one overlaps"),
    TEXT("--reader", reader, "NAME", "who answers; default: the user's name"),
};

#define REVIEW_FILE ".brrd-review.json"
enum { PATH_SIZE = 4096, JSON_BYTES = 1 << 20, MOST_LISTED = 20 };

/* A recording and its answers. */
struct reviewed {
    const struct report_recording *recording;
    char *relative, *labels; /* the recording below the folder of the EEG; its label file; NULL: it is not there */
    struct answers answers;
};
struct review {
    const struct arguments *o;
    const char *folder;
    char eeg[PATH_SIZE];
    char found[REVIEW_MODELS][PATH_SIZE];
    struct report_data data[REVIEW_MODELS]; /* of the folders of events */
    int n_found;
    struct review_queue queue;
    struct reviewed *recordings; /* by name, each once */
    int n;
};

static void review_done(struct review *r) {
    for (int i = 0; i < r->n; i++) {
        free(r->recordings[i].relative);
        free(r->recordings[i].labels);
        answers_done(&r->recordings[i].answers);
    }
    free(r->recordings);
    review_queue_done(&r->queue);
    for (int i = 0; i < r->n_found; i++)
        report_data_done(&r->data[i]);
}

/* ---- the folder ---- */

static int write_places(const struct review *r, struct err *err) {
    char path[PATH_SIZE];
    OWNED(str_done) struct str text = str_of(JSON_BYTES);
    struct json_writer w = json_object_to(&text);
    json_put_str(&w, "eeg", r->eeg);
    JSON_ARRAY(&w, "found", r->found, r->n_found);
    json_end(&w, '}');
    str_puts(&text, "\n");
    int rc = fsio_join(path, sizeof path, r->folder, REVIEW_FILE, err);
    return rc || (rc = fsio_mkdirs(r->folder, err)) ? rc : fsio_write_text(path, &text, err);
}

static int read_places(struct review *r, struct err *err) {
    char path[PATH_SIZE];
    int rc = fsio_join(path, sizeof path, r->folder, REVIEW_FILE, err);
    if (rc)
        return rc;
    if (!fsio_exists(path))
        return err_set(
            err, ERR_NOT_FOUND,
            "%s is no review; begin one with `brrctl review DIR --eeg EEG`: DIR a new folder, EEG that of the recordings",
            r->folder);
    OWNED_POINTER(json_free) struct json *json = NULL;
    if ((rc = json_read(path, JSON_BYTES, &json, err)))
        return rc;
    const struct json *found = json_get(json, "found");
    bool fits = str_copy(r->eeg, sizeof r->eeg, json_str(json_get(json, "eeg"), "")) && json_count(found) <= REVIEW_MODELS;
    for (size_t i = 0; fits && i < json_count(found); i++)
        fits = str_copy(r->found[r->n_found++], PATH_SIZE, json_str(json_at(found, i), ""));
    return fits ? 0 : err_set(err, ERR_RANGE, "%s: too many folders, or a path that is too long", path);
}

static bool is_within(const char *path, const char *folder) {
    const size_t n = strlen(folder);
    return !strncmp(path, folder, n) && (!path[n] || path[n] == '/');
}

/* Refuses folders of the review and of the recordings of which one lies in the other: the review's files would be reviewed too. */
static int check_places(struct review *r, struct err *err) {
    char folder[PATH_SIZE];
    int rc;
    if (!fsio_exists(own(r->o)->eeg))
        return err_set(err, ERR_NOT_FOUND, "there is no %s; expected the folder of the recordings", own(r->o)->eeg);
    if ((rc = fsio_absolute(r->eeg, sizeof r->eeg, own(r->o)->eeg, err)) ||
        (rc = fsio_absolute(folder, sizeof folder, r->folder, err)))
        return rc;
    if (is_within(folder, r->eeg) || is_within(r->eeg, folder))
        return err_set(err, ERR_INVALID, "the review %s and the recordings %s lie in one another; name another folder", folder,
                       r->eeg);
    return 0;
}

static int note_events_file(void *ctx, const char *path, int64_t bytes, struct err *err) {
    (void)bytes, (void)err;
    *(bool *)ctx |= str_ends(path, "_events.tsv");
    return 0;
}

/* Runs a model over the recordings. Returns the exit code of detect; what it could not read is left out, unless that is all. */
static int find_events(struct review *r, const char *model, struct err *err) {
    char name[DETECT_NAME_SIZE], relative[PATH_SIZE], *found = r->found[r->n_found++];
    struct detect_options detect = {DETECT_OPTIONS_DEFAULT, .model = model, .output = found, .quiet = true};
    const char *eeg[] = {r->eeg};
    struct arguments o = *r->o;
    char folder[PATH_SIZE];
    detect.on = own(r->o)->on;
    detect.parallel = own(r->o)->parallel;
    str_format(relative, sizeof relative, ".found/%s", detect_folder_name(model, name));
    if (fsio_absolute(folder, sizeof folder, r->folder, err) || fsio_join(found, PATH_SIZE, folder, relative, err))
        return EXIT_FAILED;
    for (int i = 0; i < r->n_found - 1; i++)
        if (!strcmp(r->found[i], found))
            return err_set(err, ERR_INVALID, "two models have the name %s; expected models of different names", name), EXIT_FAILED;
    o.own = &detect;
    o.args = eeg;
    o.n_args = 1;
    fprintf(stderr, "brrctl: looking for events with %s\n", model);
    const int code = detect_local(&o);
    bool any = code != EXIT_FAILED;
    if (!any)
        (void)fsio_walk(found, note_events_file, &any, err);
    if (!any)
        return err_set(err, ERR_PRECONDITION, "%s could look at no recording, as said above; the review has not begun", model),
               EXIT_FAILED;
    return code == EXIT_FAILED ? 0 : code;
}

static int begin_review(struct review *r, struct err *err) {
    static const struct argument_list ward = {{"ward"}, 1};
    const struct argument_list *found = &own(r->o)->found, *models = &own(r->o)->models;
    int code = 0;
    if (!models->n && !found->n)
        models = &ward;
    if (models->n + found->n > REVIEW_MODELS)
        return err_set(err, ERR_RANGE, "--model and --found name more than %d places", REVIEW_MODELS), EXIT_FAILED;
    if (check_places(r, err) || fsio_mkdirs(r->folder, err))
        return EXIT_FAILED;
    for (int i = 0; i < found->n; i++)
        if (fsio_absolute(r->found[r->n_found++], PATH_SIZE, found->items[i], err))
            return EXIT_FAILED;
    for (int i = 0; i < models->n && !code; i++)
        code = find_events(r, models->items[i], err);
    return code ? code : write_places(r, err) ? EXIT_FAILED : 0;
}

/* ---- recordings and answers ---- */

ORDER_BY(by_name, struct reviewed, strcmp(x->recording->name, y->recording->name))

static int read_answers(const struct review *r, struct reviewed *v, struct err *err) {
    const char *eeg = v->recording->eeg;
    char name[PATH_SIZE], labels[PATH_SIZE];
    int rc;
    if (!eeg)
        return 0;
    const char *relative = is_within(eeg, r->eeg) && eeg[strlen(r->eeg)] ? eeg + strlen(r->eeg) + 1 : fsio_basename(eeg);
    if ((rc = events_path(events_format_find("tsv"), relative, name, sizeof name, err)) ||
        (rc = fsio_join(labels, sizeof labels, r->folder, name, err)))
        return rc;
    v->relative = needed(strdup(relative));
    v->labels = needed(strdup(labels));
    return answers_read(labels, &v->answers, err);
}

static int read_recordings(struct review *r, struct err *err) {
    size_t most = 1;
    for (int m = 0; m < r->n_found; m++)
        most += (size_t)r->data[m].n;
    r->recordings = needed(calloc(most, sizeof *r->recordings));
    for (int m = 0; m < r->n_found; m++)
        for (int i = 0; i < r->data[m].n; i++)
            r->recordings[r->n++].recording = &r->data[m].recordings[i];
    SORT(r->recordings, r->n, by_name);
    int n = 0, rc = 0;
    for (int i = 0; i < r->n; i++)
        if (!n || by_name(&r->recordings[n - 1], &r->recordings[i]) != 0)
            r->recordings[n++] = r->recordings[i];
    r->n = n;
    for (int i = 0; i < n && !rc; i++)
        rc = read_answers(r, &r->recordings[i], err);
    return rc;
}

static int read_found(struct review *r, struct err *err) {
    int rc = 0;
    for (int i = 0; i < r->n_found && !rc; i++) {
        const struct report_places places = {.events = r->found[i], .eeg = r->eeg};
        rc = report_data_read(&places, &r->data[i], err);
    }
    rc = rc ? rc : read_recordings(r, err);
    return rc ? rc : review_queue_make(r->data, r->n_found, &r->queue, err);
}

static struct reviewed *reviewed_of(const struct review *r, const struct report_recording *recording) {
    const struct reviewed key = {.recording = recording};
    return bsearch(&key, r->recordings, (size_t)r->n, sizeof *r->recordings, by_name);
}

static const struct answer *answer_of(const struct review *r, const struct review_item *item) {
    const struct reviewed *v = reviewed_of(r, item->recording);
    return answers_find(&v->answers, item->onset_s, item->end_s);
}

/* ---- the list ---- */

static const char *why(const struct review *r, const struct review_item *i, char buf[96]) {
    *buf = '\0';
    if (i->surprise > 0)
        str_copy(buf, 96, i->found ? "not in the labels" : "labelled, not found");
    if (i->disagree > 0)
        str_format(buf + strlen(buf), 96 - strlen(buf), "%s%d of %d models", *buf ? ", " : "", i->found, r->n_found);
    if (i->unsure >= 0.5 || !*buf)
        str_format(buf + strlen(buf), 96 - strlen(buf), "%s%s", *buf ? ", " : "", i->unsure >= 0.5 ? "unsure" : "found");
    return buf;
}

static void list_json(const struct review *r, const struct review_item *i, const char *name, const struct answer *a) {
    char text[96];
    struct json_writer *w = output_begin();
    json_put_str(w, "event", name);
    json_put_str(w, "recording", i->recording->eeg);
    JSON_MEMBERS(w, *i, onset_s, end_s, confidence, found);
    json_put_i64(w, "models", r->n_found);
    JSON_MEMBERS(w, *i, labelled, in_labels, worth);
    json_put_str(w, "why", why(r, i, text));
    json_put_str(w, "answer", a ? a->type : NULL);
    json_put_str(w, "reader", a ? a->reader : NULL);
    output_end(w);
}

/* Prints how many answers there are, and the command that trains on them. */
static void print_sum(const struct review *r) {
    int64_t answers = 0, seizures = 0, unsure = 0, recordings = 0, left = 0;
    char folder[PATH_SIZE];
    for (int i = 0; i < r->n; i++) {
        const struct answers *a = &r->recordings[i].answers;
        for (size_t k = 0; k < a->n; k++) {
            seizures += events_is_seizure(a->items[k].type);
            unsure += !strcmp(a->items[k].type, ANSWER_UNSURE);
        }
        answers += (int64_t)a->n;
        recordings += a->n > 0;
    }
    for (int i = 0; i < r->queue.n; i++)
        left += !answer_of(r, &r->queue.items[i]);
    printf("%s in %s", counted(answers, "answer").text, counted(recordings, "recording").text);
    printf(": %s, %s of background, %lld unsure; %s without an answer\n", counted(seizures, "seizure").text,
           counted(answers - seizures - unsure, "span").text, (long long)unsure, counted(left, "event").text);
    if (seizures && !fsio_absolute(folder, sizeof folder, r->folder, NULL))
        printf("train on them: brrctl submit configs/few.yaml --set data.source=file://%s --watch\n", folder);
}

static int list_review(struct review *r) {
    const int64_t most = own(r->o)->most > 0 ? own(r->o)->most : r->o->json ? INT64_MAX : MOST_LISTED;
    struct listing listing;
    int64_t shown = 0, more = 0;
    listing_begin(&listing, "event|>seconds|>confidence|why|>worth|answer");
    for (int i = 0; i < r->queue.n; i++) {
        const struct review_item *item = &r->queue.items[i];
        const struct answer *a = answer_of(r, item);
        char name[PATH_SIZE], text[96], confidence[16];
        if (a && !own(r->o)->all)
            continue;
        if (shown++ >= most) {
            more++;
            continue;
        }
        str_format(name, sizeof name, "%s@%.10g", item->recording->name, round(item->onset_s * 100) / 100);
        if (r->o->json)
            list_json(r, item, name, a);
        else
            listing_row(&listing, "%s|%.1f|%s|%s|%.2f|%s%s%s", name, item->end_s - item->onset_s,
                        output_probability(item->confidence, confidence), why(r, item, text), item->worth, a ? a->type : "",
                        a ? " by " : "", a ? a->reader : "");
    }
    listing_end(&listing);
    if (r->o->json)
        return 0;
    if (more)
        printf("… and %s; --most N lists N\n", counted(more, "event").text);
    print_sum(r);
    return 0;
}

/* ---- an answer ---- */

/* The recording of this name, or the only one whose name ends in it. */
static int find_recording(const struct review *r, const char *name, struct reviewed **ret, struct err *err) {
    struct reviewed *found = NULL;
    for (int i = 0; i < r->n; i++) {
        const char *whole = r->recordings[i].recording->name;
        const bool equal = !strcmp(whole, name);
        if (!equal && strcmp(fsio_basename(whole), name) != 0)
            continue;
        if (found && !equal)
            return err_set(err, ERR_INVALID, "'%s' may be %s or %s; name it with its folder", name, found->recording->name, whole);
        found = &r->recordings[i];
        if (equal)
            break;
    }
    if (!found)
        return err_set(err, ERR_NOT_FOUND,
                       "the review %s has no recording '%s'; `brrctl review %s` lists events as RECORDING@SECOND", r->folder, name,
                       r->folder);
    if (!found->recording->eeg)
        return err_set(err, ERR_NOT_FOUND, "the recording of %s is not below %s", name, r->eeg);
    *ret = found;
    return 0;
}

static int find_event(const struct review *r, const char *text, struct reviewed **ret, const struct review_item **ret_item,
                      struct err *err) {
    char name[PATH_SIZE];
    double at_s;
    const char *at = strrchr(text, '@');
    if (!at || !str_to_f64(at + 1, &at_s) || !str_format(name, sizeof name, "%.*s", (int)(at - text), text))
        return err_set(err, ERR_INVALID, "'%s' is no event; expected RECORDING@SECOND, as `brrctl review %s` lists them", text,
                       r->folder);
    int rc = find_recording(r, name, ret, err);
    *ret_item = NULL;
    for (int i = 0; i < r->queue.n && !rc; i++) {
        const struct review_item *item = &r->queue.items[i];
        if (!strcmp(item->recording->name, (*ret)->recording->name) && item->onset_s <= at_s + 0.01 && at_s < item->end_s)
            *ret_item = item;
    }
    return rc || *ret_item ? rc : err_set(err, ERR_NOT_FOUND, "no event of %s is at %g s; `add` adds one", name, at_s);
}

static const char *reader_of(const struct arguments *o) {
    const char *user = getenv("LOGNAME");
    user = user && *user ? user : getenv("USER");
    return own(o)->reader ? own(o)->reader : user ? user : "";
}

static int save_change(const struct review *r, struct reviewed *v, const struct correction *c, struct err *err) {
    const struct correction_place place = {
        .eeg = v->recording->eeg, .folder = r->folder, .relative = v->relative, .force = r->o->force};
    correction_revision revision;
    struct answers answers;
    int rc = correction_save(&place, c, NULL, &answers, revision, err);
    if (rc)
        return rc;
    answers_done(&v->answers);
    v->answers = answers;
    return 0;
}

static void tell_change(const struct review *r, const struct reviewed *v, const struct correction *c) {
    const bool whole = c->verb == CORRECTION_DONE;
    if (r->o->json) {
        struct json_writer *w = output_begin();
        json_put_str(w, "recording", v->recording->eeg);
        json_put_str(w, "labels", v->labels);
        json_put_f64(w, "onset_s", whole ? NAN : c->answer.onset_s);
        json_put_f64(w, "end_s", whole ? NAN : c->answer.end_s);
        JSON_MEMBERS(w, c->answer, type, reader);
        output_end(w);
        return;
    }
    if (whole)
        printf("%s: the rest of it has no seizure", v->recording->name);
    else
        printf("%s: %.2f to %.2f s is %s", v->recording->name, c->answer.onset_s, c->answer.end_s, c->answer.type);
    printf(", by %s (%s)\n", c->answer.reader, v->labels);
    print_sum(r);
}

/* The span that the options or the event give, and the type. */
static int fill_correction(const struct review *r, const struct reviewed *v, const struct review_item *item, struct correction *c,
                           struct err *err) {
    const struct review_options *options = own(r->o);
    const bool adds = c->verb == CORRECTION_ADD, accepts = c->verb == CORRECTION_ACCEPT;
    const struct answer *given = item && c->verb == CORRECTION_WITHDRAW ? answer_of(r, item) : NULL;
    const double end_s = v->recording->duration_s;
    if (options->type && !adds && !accepts)
        return err_set(err, ERR_INVALID, "--type is what an accepted or added event is; `%s` has none", correction_verbs[c->verb]);
    if (adds && (isnan(options->onset_s) || isnan(options->end_s)))
        return err_set(err, ERR_INVALID, "add needs --onset and --end, in seconds of the recording");
    c->replace = options->replace;
    c->has_event = item != NULL;
    c->event_onset_s = item ? item->onset_s : 0;
    c->event_end_s = item ? fmin(item->end_s, end_s) : end_s;
    c->answer.onset_s = given ? given->onset_s : argument_or(options->onset_s, c->event_onset_s);
    c->answer.end_s = given ? given->end_s : argument_or(options->end_s, c->event_end_s);
    c->answer.confidence = options->confidence;
    str_copy(c->answer.type, sizeof c->answer.type,
             adds || accepts                  ? (options->type ? options->type : "sz")
             : c->verb == CORRECTION_UNSURE   ? ANSWER_UNSURE
             : c->verb == CORRECTION_WITHDRAW ? "without an answer"
                                              : ANSWER_BACKGROUND);
    if (!str_copy(c->answer.reader, sizeof c->answer.reader, reader_of(r->o)) ||
        !str_copy(c->answer.comment, sizeof c->answer.comment, options->comment ? options->comment : ""))
        return err_set(err, ERR_RANGE, "--reader has at most %d bytes and --comment %d", ANSWER_READER_SIZE - 1,
                       ANSWER_COMMENT_SIZE - 1);
    return 0;
}

static int answer_review(struct review *r, enum correction_verb verb, const char *what, struct err *err) {
    struct correction c = {.verb = verb};
    const struct review_item *item = NULL;
    struct reviewed *v;
    const bool whole = verb == CORRECTION_ADD || verb == CORRECTION_DONE;
    int rc = whole ? find_recording(r, what, &v, err) : find_event(r, what, &v, &item, err);
    if (rc || (rc = fill_correction(r, v, item, &c, err)) || (rc = save_change(r, v, &c, err)))
        return rc;
    tell_change(r, v, &c);
    return 0;
}

/* The page of a recording, with the events of the queue; what is answered there is saved in the folder of the review. Returns an
 * exit code. */
static int view_review(const struct review *r, const char *what, struct err *err) {
    const bool event = strchr(what, '@');
    const struct review_item *item = NULL;
    char folder[PATH_SIZE], confidence[16];
    struct reviewed *v;
    if ((event ? find_event(r, what, &v, &item, err) : find_recording(r, what, &v, err)) ||
        fsio_absolute(folder, sizeof folder, r->folder, err))
        return EXIT_FAILED;
    struct viewing *viewing = viewing_new(v->recording->eeg, err);
    if (!viewing)
        return EXIT_FAILED;
    for (int i = 0; i < r->queue.n; i++)
        if (!strcmp(r->queue.items[i].recording->name, v->recording->name))
            str_format(viewing_mark(viewing, r->queue.items[i].onset_s, r->queue.items[i].end_s), VIEWING_TEXT, "%s %s",
                       r->queue.items[i].found ? "found" : "label", output_probability(r->queue.items[i].confidence, confidence));
    viewing_answers(viewing, folder, v->relative);
    viewing_at(viewing, item ? item->onset_s : 0);
    const int code = viewing_show(r->o, viewing);
    viewing_free(viewing);
    return code;
}

/* ---- the command ---- */

static bool check_words(const struct arguments *o) {
    static const char *const verbs[] = {"accept", "reject", "unsure", "add", "done", "withdraw", "view"};
    const int n = sizeof verbs / sizeof *verbs;
    const char *verb = o->n_args > 1 ? o->args[1] : NULL;
    bool known = !verb;
    for (int i = 0; i < n && verb && !known; i++)
        known = !strcmp(verbs[i], verb);
    if (!known) {
        const char *nearest = arguments_nearest(verb, verbs, n, sizeof *verbs);
        fprintf(stderr, "brrctl: unknown review command '%s'; %s%s%s\n", verb,
                nearest ? "did you mean " : "see `brrctl review --help`", nearest ? nearest : "", nearest ? "?" : "");
        return false;
    }
    if (o->n_args == 2) {
        fprintf(stderr, "brrctl: review %s needs %s, as `brrctl review %s` lists them\n", verb,
                !strcmp(verb, "add") || !strcmp(verb, "done") ? "a RECORDING" : "an EVENT", o->args[0]);
        return false;
    }
    if (verb && strcmp(verb, "view") != 0 && !*reader_of(o)) {
        fputs("brrctl: an answer needs the name of its reader; add --reader NAME\n", stderr);
        return false;
    }
    if (!own(o)->eeg && (own(o)->models.n || own(o)->found.n)) {
        fputs("brrctl: --model and --found say where events come from when a review begins, with --eeg\n", stderr);
        return false;
    }
    return true;
}

static int run_review(struct review *r) {
    const struct arguments *o = r->o;
    enum correction_verb verb;
    struct err err = {0};
    int code = own(o)->eeg ? begin_review(r, &err) : 0;
    if (!code && ((!own(o)->eeg && read_places(r, &err)) || read_found(r, &err)))
        code = EXIT_FAILED;
    if (!code && o->n_args > 1 && !correction_verb_find(o->args[1], &verb))
        code = view_review(r, o->args[2], &err);
    else if (!code && o->n_args > 1 && answer_review(r, verb, o->args[2], &err))
        code = EXIT_FAILED;
    if (code)
        return err.code ? brrctl_fail(&err) : code;
    return o->n_args > 1 ? 0 : list_review(r);
}

static int cmd_review(const struct arguments *o) {
    if (!check_words(o))
        return EXIT_USAGE;
    struct review *r = needed(calloc(1, sizeof *r));
    r->o = o;
    r->folder = o->args[0];
    int code = run_review(r);
    review_done(r);
    free(r);
    return code;
}

BRRCTL_COMMAND(
    review, "DIR [accept|reject|unsure|withdraw|add|done|view EVENT|RECORDING]", ARGUMENTS(rows), cmd_review,
    "look through events, the most doubtful first, and correct them: label files that training reads",
    "  DIR --eeg EEG          begin: look for events in the recordings below EEG with one model or several, and list them\n"
    "  DIR                    events without an answer, those most worth a look first, as RECORDING@SECOND\n"
    "  DIR accept EVENT       it is a seizure; --onset and --end move it, --type names its kind\n"
    "  DIR reject EVENT       it is none\n"
    "  DIR unsure EVENT       nobody can say: training leaves it out\n"
    "  DIR withdraw EVENT     take its answer back\n"
    "  DIR add RECORDING      a seizure that nobody found, from --onset to --end\n"
    "  DIR done RECORDING     the rest of the recording has no seizure\n"
    "  DIR view EVENT         print the address of a page with the EEG, where events are answered too\n"
    "DIR gets a link to each recording with an answer and its label file, never EEG. Where nobody has answered, the labels of "
    "the\n"
    "recording count, and without labels training leaves the time out.\n"
    "example: brrctl review mine --eeg /data/eeg --model ward --model line_length && brrctl review mine reject night@512.5");
