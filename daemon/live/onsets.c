#include "daemon/live/onsets.h"

#include "base/log.h"
#include "base/mailbox.h"
#include "base/principal.h"
#include "daemon/hosts/niceness.h"
#include "eeg/frontend.h"

enum {
    LOOK_MS = 1000,
    RETRY_MS = 5000,
    MINUTE_MS = 60 * 1000,
    GIVE_UP_MS = 120 * 1000, /* a stream that stands still, or a volume that is full, for so long */
    STOP_S = 3,
    LATE_S = 10, /* EEG that a stream may lose before it is written; looks are a second apart */
    TEXT = 512
};

/* An onset that is followed. */
struct onset {
    struct message message;
    struct onset *next;
    struct eegring *eeg;
    struct onset_file file;
    int64_t first, wall_ms;     /* sample of the onset, and its Unix time */
    int64_t begin, reach;       /* samples: where the EEG began when it was written first, and how far the file goes */
    int64_t again_ms, until_ms; /* not before, after an error; given up then */
    char alarm[JOURNAL_ALARM], text[TEXT];
};

struct onsets {
    struct onset_folder folder; /* the thread's, after the start */
    struct mailbox *box;
    pthread_t thread;
    atomic_bool stopping;
    _Atomic int64_t flood_ms; /* when a flood was logged; 0: never */
    /* the thread's */
    struct onset *first;
    int n;
};

static int write_onset(struct onsets *o, struct onset *p, struct err *err) {
    OWNED(str_done) struct str edf = str_of(EEGRING_EDF_BYTES);
    int rc = eegring_put_edf(p->eeg, &(struct eegring_edf){p->first, p->wall_ms, p->text}, &edf, err);
    if (rc && rc != ERR_NOT_FOUND)
        return rc;
    return onset_folder_put(&o->folder, &p->file, &edf, err);
}

static void lose(const struct onsets *o, const struct onset *p, const char *why) {
    log_error("the EEG of an alarm is not kept, or not whole", "alarm=%s error=\"%s\"", p->alarm, why);
    onset_folder_count(&o->folder, "lost");
}

/* The same of a flood, which has a line a minute. */
static void lose_one_of_many(struct onsets *o, const struct onset *p) {
    const int64_t now = clock_ms();
    int64_t before = atomic_load(&o->flood_ms);
    if ((!before || now - before >= MINUTE_MS) && atomic_compare_exchange_strong(&o->flood_ms, &before, now))
        lose(o, p, "too many alarms have begun in the last minutes");
    else
        onset_folder_count(&o->folder, "lost");
}

/* Writes what has come since; true: the file is whole, or given up. */
static bool follow_onset(struct onsets *o, struct onset *p, bool last) {
    const int64_t end = p->first + (int64_t)EEGRING_EDF_S * FRONTEND_RATE_HZ, now = clock_ms();
    struct eegring_state s;
    struct err err = {0};
    char text[800];
    last |= now >= p->until_ms;
    eegring_describe(p->eeg, &s);
    const int64_t start = end - 2 * (int64_t)EEGRING_EDF_S * FRONTEND_RATE_HZ, reach = s.kept.end < end ? s.kept.end : end,
                  begin = s.kept.first > start ? s.kept.first : start;
    const bool due = !p->reach || reach == end || reach >= p->reach + ONSETS_STEP_S * FRONTEND_RATE_HZ;
    if ((p->reach && reach == p->reach) || (!last && (!due || now < p->again_ms)))
        return last;
    if (write_onset(o, p, &err)) {
        p->again_ms = now + RETRY_MS;
        if (last)
            lose(o, p, err_text(&err, text, sizeof text));
        return last;
    }
    p->begin = p->reach ? p->begin : begin;
    p->reach = reach;
    if (p->file.bytes && begin > p->begin + LATE_S * FRONTEND_RATE_HZ && (last || reach == end))
        lose(o, p, "it could not be written in time, and the stream has a part of it no more (viewer.minutes)");
    return last || reach == end;
}

static void onset_free(struct onset *p) {
    eegring_drop(p->eeg);
    free(p);
}

static void take_onset(struct onsets *o, struct onset *p) {
    int of_stream = 0, of_owner = 0, of_alarm = 0; /* of_alarm: in whose files it is well before the end */
    for (const struct onset *q = o->first; q; q = q->next) {
        of_stream += q->eeg == p->eeg;
        of_owner += q->file.owner == p->file.owner;
        of_alarm +=
            q->eeg == p->eeg && !strcmp(q->alarm, p->alarm) && llabs(p->first - q->first) < ONSETS_APART_S * FRONTEND_RATE_HZ;
    }
    const bool many = o->n >= ONSETS_WAITING || of_stream >= ONSETS_OF_STREAM || of_owner >= principal_share(ONSETS_WAITING, true);
    if (many && !of_alarm)
        lose_one_of_many(o, p);
    if (many || of_alarm) {
        onset_free(p);
        return;
    }
    p->next = o->first;
    o->first = p;
    o->n++;
}

static void *onsets_run(void *ctx) {
    struct onsets *o = ctx;
    niceness_set(NICENESS_OTHER);
    for (bool last = false; !last;) {
        struct onset *p = (struct onset *)mailbox_wait(o->box, LOOK_MS);
        last = !p && atomic_load(&o->stopping);
        for (; p; p = (struct onset *)mailbox_take(o->box))
            take_onset(o, p);
        for (struct onset **at = &o->first; *at;) {
            struct onset *q = *at;
            if (!follow_onset(o, q, last)) {
                at = &q->next;
                continue;
            }
            *at = q->next;
            o->n--;
            onset_free(q);
        }
        onset_folder_prune(&o->folder);
    }
    return NULL;
}

/* ---- the loop's side ---- */

static void onsets_free(struct onsets *o) {
    mailbox_free(o->box);
    free(o);
}

int onsets_start(const struct onsets_config *config, struct onsets **ret, struct err *err) {
    static const char *const results[] = {"kept", "lost", "removed", "age"};
    struct onsets *o = calloc(1, sizeof *o);
    if (!o || !(o->box = mailbox_new(ONSETS_WAITING, NULL, NULL))) {
        free(o);
        return err_set(err, ERR_EXHAUSTED, "out of memory for the EEG of alarms");
    }
    o->folder = (struct onset_folder){.max_bytes = config->max_bytes, .keep_ms = config->keep_ms, .metrics = config->metrics};
    str_copy(o->folder.results, sizeof o->folder.results, config->results);
    for (size_t i = 0; config->metrics && i < sizeof results / sizeof *results; i++) /* shown from the start, at 0 */
        metrics_series(config->metrics, "brrd_onsets_total", results[i]);
    if (pthread_create(&o->thread, NULL, onsets_run, o)) {
        onsets_free(o);
        return err_set(err, ERR_EXHAUSTED, "cannot start the thread that writes the EEG of alarms");
    }
    *ret = o;
    return 0;
}

void onsets_stop(struct onsets *o) {
    struct timespec deadline;
    if (!o)
        return;
    atomic_store(&o->stopping, true);
    mailbox_close(o->box);
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += STOP_S;
    if (!pthread_timedjoin_np(o->thread, NULL, &deadline)) {
        onsets_free(o);
        return;
    }
    log_warn("the EEG of alarms is not whole: its volume does not answer", "path=%s", o->folder.results);
    pthread_detach(o->thread); /* it still uses the onsets, which end with the process */
}

void onsets_add(struct onsets *o, const struct journal_entry *e, struct eegring *eeg) {
    struct onset *p = o && eeg && o->folder.max_bytes ? calloc(1, sizeof *p) : NULL;
    if (!p)
        return;
    p->first = llround(e->start_s * FRONTEND_RATE_HZ);
    p->wall_ms = e->sample_ms > 0 ? e->sample_ms : e->received_ms;
    p->until_ms = clock_ms() + GIVE_UP_MS;
    str_copy(p->alarm, sizeof p->alarm, e->alarm);
    str_format(p->text, sizeof p->text, "alarm of %s, probability %.2f%s%s (%s)", *e->client ? e->client : "a stream", e->value,
               *e->where ? ", " : "", e->where, e->alarm);
    p->eeg = eegring_share(eeg);
    if (!onset_file_of(e, p->first, &p->file)) {
        lose(o, p, "its stream's id is no name of a file");
    } else {
        if (mailbox_post(o->box, &p->message))
            return;
        lose_one_of_many(o, p);
    }
    onset_free(p);
}
