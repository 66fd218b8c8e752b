#include "daemon/alarms/alarm_entry.h"

enum { NUMBERED_STEPS = 65536 };
static const char forgotten[] = "forgotten: the alarm has been on for more than 5 min";
static const char untold[] = "nobody is told: a rule of its bed holds it back";

unsigned alarm_entry_kinds(void) {
    return 1u << JOURNAL_ALARM_ON | 1u << JOURNAL_ALARM_OFF | 1u << JOURNAL_MOVED | 1u << JOURNAL_ANSWERED |
           1u << JOURNAL_ESCALATED | 1u << JOURNAL_STANDBY | 1u << JOURNAL_TECHNICAL_ON | 1u << JOURNAL_TECHNICAL_OFF |
           1u << JOURNAL_HOLDER;
}

/* ---- what an answer was, as the detail of its entry: "ACTION[ MARK] via VIA[ by NAME][: NOTE]"; no name has a colon ---- */

static void put_author(char *detail, const struct alarm_author *author) {
    size_t len = strlen(detail);
    str_format(detail + len, JOURNAL_DETAIL - len, "via %s%s%s", author->via, *author->person ? " by " : "", author->person);
    for (char *p = detail + len; *p; p++)
        *p = *p == ':' ? ' ' : *p;
}

static void put_answer(char *detail, const struct alarm_answer *answer) {
    str_format(detail, JOURNAL_DETAIL, "%s%s%s ", alarm_action_name(answer->action), answer->action == ALARM_MARK ? " " : "",
               answer->action == ALARM_MARK ? alarm_mark_name(answer->mark) : "");
    put_author(detail, &answer->author);
    size_t len = strlen(detail);
    if (answer->action == ALARM_NOTED)
        str_format(detail + len, JOURNAL_DETAIL - len, ": %s", answer->note);
}

/* Takes the next word of a text. */
static void take_word(const char **at, char *ret, size_t size) {
    const size_t len = strcspn(*at, " :");
    str_format(ret, size, "%.*s", (int)len, *at);
    *at += len + ((*at)[len] == ' ');
}

/* at: behind the action. *ret_note: what follows the author, or "". */
static void read_author(const char *at, struct alarm_author *ret, const char **ret_note) {
    const char *colon = strstr(at, ": ");
    const size_t len = colon ? (size_t)(colon - at) : strlen(at);
    *ret_note = colon ? colon + 2 : "";
    if (!str_starts(at, "via "))
        return;
    const char *name = at + strlen("via ");
    take_word(&name, ret->via, sizeof ret->via);
    if (name < at + len && str_starts(name, "by "))
        str_format(ret->person, sizeof ret->person, "%.*s", (int)(at + len - name - 3), name + 3);
}

bool alarm_entry_answer(const struct journal_entry *e, struct alarm_answer *ret) {
    char word[ALARM_VIA];
    const char *at = e->detail, *note;
    *ret = (struct alarm_answer){.author = {.at_ms = e->received_ms, .boot_ms = e->boot_ms},
                                 .for_ms = e->until_ms ? e->until_ms - e->received_ms : 0};
    str_copy(ret->author.by, sizeof ret->author.by, e->person);
    take_word(&at, word, sizeof word);
    if (!alarm_action_find(word, &ret->action))
        return false;
    if (ret->action == ALARM_MARK) {
        take_word(&at, word, sizeof word);
        if (!alarm_mark_find(word, &ret->mark))
            return false;
    }
    read_author(at, &ret->author, &note);
    str_copy(ret->note, sizeof ret->note, note);
    return true;
}

/* ---- what entries mean ---- */

struct alarms_start alarm_entry_start(const struct journal_entry *e) {
    return (struct alarms_start){.id = e->alarm,
                                 .bed = e->client,
                                 SAME_MEMBERS(*e, session, principal, model, where, live, start_s, value),
                                 .test = alarm_entry_is_test(e),
                                 .answered = *e->person != '\0',
                                 .untold = !strcmp(e->detail, untold),
                                 .on_ms = e->received_ms,
                                 .first_ms = e->on_ms};
}

static void take_on(struct alarms *all, const struct journal_entry *e, const struct alarms_now *now) {
    char id[JOURNAL_ALARM];
    struct alarms_start start = alarm_entry_start(e);
    if (!*e->alarm) {
        journal_alarm_id(e->session, llround(e->start_s * 256), id);
        start.id = id;
    }
    alarms_began(all, &start, now);
    if (str_starts(e->detail, ALARM_ENTRY_TOLD))
        alarms_due(all, start.id, e->received_ms, now);
}

static void take_answer(struct alarms *all, const struct journal_entry *e, const struct alarms_now *now) {
    struct alarm_answer answer;
    struct err err;
    if (!strcmp(e->detail, forgotten))
        alarms_forgotten(all, e->alarm, e->received_ms, now);
    else if (alarm_entry_answer(e, &answer))
        (void)alarms_answer(all, e->alarm, &answer, now, &err); /* to an alarm that is forgotten */
}

static void take_standby(struct alarms *all, const struct journal_entry *e, const struct alarms_now *now) {
    struct alarm_author author = {.at_ms = e->received_ms, .boot_ms = e->boot_ms};
    struct err err;
    const char *note;
    str_copy(author.by, sizeof author.by, e->person);
    read_author(e->detail, &author, &note);
    /* One that is over ended the one before it. */
    (void)alarms_standby(all, e->client, e->until_ms > now->wall_ms ? e->until_ms : 0, &author, now, &err);
}

bool alarm_entry_cause(const struct journal_entry *e, struct alarms_cause *ret) {
    char word[ALARM_VIA];
    const char *at = e->detail;
    take_word(&at, word, sizeof word);
    *ret = (struct alarms_cause){
        .bed = e->client, .principal = e->principal, .session = e->session, .why = str_starts(at, ": ") ? at + 2 : ""};
    return alarm_kind_find(word, &ret->kind) && ret->kind != ALARM_SEIZURE;
}

static void take_technical(struct alarms *all, const struct journal_entry *e, const struct alarms_now *now) {
    struct alarms_cause cause;
    if (alarm_entry_cause(e, &cause)) /* else one of a later version */
        alarms_technical(all, e->alarm, &cause, e->on_ms ? e->on_ms : e->received_ms, now);
}

/* The clocks as they would be, had nobody set the wall clock since the entry was made: by these its times have their true age. Of
 * an entry from before this boot only the wall clock says how old it is. */
static struct alarms_now unset_since(const struct journal_entry *e, const struct alarms_now *now) {
    const int64_t age_ms = now->boot_ms - e->boot_ms;
    return (struct alarms_now){.boot_ms = now->boot_ms,
                               .wall_ms = e->boot_ms ? e->received_ms + (age_ms > 0 ? age_ms : 0) : now->wall_ms};
}

void alarm_entry_take(struct alarms *all, const struct journal_entry *e, const struct alarms_now *clocks) {
    const struct alarms_now unset = unset_since(e, clocks), *now = &unset;
    switch (e->kind) {
    case JOURNAL_ALARM_ON:
        take_on(all, e, now);
        break;
    case JOURNAL_ALARM_OFF:
        alarms_ended(all,
                     &(struct alarms_end){.id = e->alarm,
                                          .session = e->session,
                                          .why = *e->detail ? e->detail : journal_off_name(JOURNAL_OFF_ENDED),
                                          .at_s = e->start_s,
                                          .off_ms = e->received_ms},
                     now);
        break;
    case JOURNAL_ENDED:
        alarms_gone(all, e->session);
        break;
    case JOURNAL_MOVED:
        alarms_moved(all, e->session, now);
        break;
    case JOURNAL_ANSWERED:
        take_answer(all, e, now);
        break;
    case JOURNAL_ESCALATED:
        alarms_escalated(all, e->alarm, (int)e->step, e->received_ms, now);
        break;
    case JOURNAL_STANDBY:
        take_standby(all, e, now);
        break;
    case JOURNAL_TECHNICAL_ON:
        take_technical(all, e, now);
        break;
    case JOURNAL_TECHNICAL_OFF:
        alarms_technical_ended(all, e->alarm);
        break;
    case JOURNAL_HOLDER:
        alarms_held(all, e->principal, e->client, e->received_ms, now);
        break;
    default:
        break;
    }
}

/* ---- what the model appends ---- */

static void put_alarm(const struct alarm *a, struct journal_entry *e) {
    COPY_TEXTS(*e, *a, session, principal);
    str_copy(e->client, sizeof e->client, a->bed);
    str_copy(e->model, sizeof e->model, a->model);
    str_copy(e->alarm, sizeof e->alarm, a->id);
    e->start_s = a->kind == ALARM_SEIZURE ? a->start_s : NAN;
    COPY_MEMBERS(*e, *a, value, live, on_ms);
}

static int64_t sample_of(const struct alarm *a) { return isfinite(a->changed_s) ? llround(a->changed_s * 256) : -1; }

/* The same at every daemon that has the alarm, so that none tells what another one has told; -1: it has none. At five minutes
 * another round of steps begins. Steps from NUMBERED_STEPS on have none: theirs would be those of other samples. */
static int64_t number_of_row(const struct alarms_row *row) {
    const struct alarm *a = row->alarm;
    const int64_t sample = a ? sample_of(a) : -1, own = INT64_C(1) << 60; /* no sample or time */
    uint64_t hash = UINT64_C(14695981039346656037);                       /* FNV-1a */
    if (row->kind == ALARMS_ROW_DUE && sample >= 0)
        return own + sample;
    if (row->kind == ALARMS_ROW_ESCALATED && sample >= 0 && row->step < NUMBERED_STEPS)
        return own + (sample * NUMBERED_STEPS + row->step) * 2 + a->status;
    if ((row->kind != ALARMS_ROW_TECHNICAL_ON && row->kind != ALARMS_ROW_TECHNICAL_OFF) || !*a->session)
        return -1;
    for (const char *p = a->id; *p; p++)
        hash = (hash ^ (unsigned char)*p) * UINT64_C(1099511628211);
    return (int64_t)(hash >> 2);
}

void alarm_entry_make(const struct alarms_row *row, struct journal_entry *ret) {
    static const enum journal_kind kinds[] = {[ALARMS_ROW_ANSWERED] = JOURNAL_ANSWERED,
                                              [ALARMS_ROW_FORGOTTEN] = JOURNAL_ANSWERED,
                                              [ALARMS_ROW_ESCALATED] = JOURNAL_ESCALATED,
                                              [ALARMS_ROW_STANDBY] = JOURNAL_STANDBY,
                                              [ALARMS_ROW_TECHNICAL_ON] = JOURNAL_TECHNICAL_ON,
                                              [ALARMS_ROW_TECHNICAL_OFF] = JOURNAL_TECHNICAL_OFF,
                                              [ALARMS_ROW_HOLDER] = JOURNAL_HOLDER,
                                              [ALARMS_ROW_DUE] = JOURNAL_ALARM_ON};
    *ret = (struct journal_entry){.kind = kinds[row->kind],
                                  .number = number_of_row(row),
                                  .received_ms = row->at_ms,
                                  .boot_ms = row->boot_ms,
                                  .start_s = NAN,
                                  .end_s = NAN,
                                  .value = NAN,
                                  .live = true};
    if (row->alarm)
        put_alarm(row->alarm, ret);
    if (row->kind == ALARMS_ROW_ANSWERED) {
        put_answer(ret->detail, row->answer);
        str_copy(ret->person, sizeof ret->person, row->answer->author.by);
        ret->until_ms = row->answer->for_ms ? row->at_ms + row->answer->for_ms : 0;
    }
    if (row->kind == ALARMS_ROW_FORGOTTEN) {
        str_copy(ret->detail, sizeof ret->detail, forgotten);
        str_copy(ret->person, sizeof ret->person, row->alarm->before.by);
        ret->untold = true;
    }
    if (row->kind == ALARMS_ROW_TECHNICAL_ON || row->kind == ALARMS_ROW_TECHNICAL_OFF)
        str_format(ret->detail, sizeof ret->detail, "%s%s%s", alarm_kind_name(row->alarm->kind), *row->alarm->why ? ": " : "",
                   row->alarm->why);
    if (row->kind == ALARMS_ROW_DUE || row->kind == ALARMS_ROW_ESCALATED)
        str_copy(ret->where, sizeof ret->where, row->alarm->where);
    if (row->kind == ALARMS_ROW_DUE) {
        ret->start_s = row->alarm->changed_s;
        str_copy(ret->detail, sizeof ret->detail, ALARM_ENTRY_TOLD "no rule of its bed holds it back any more");
    }
    if (row->kind == ALARMS_ROW_ESCALATED) {
        ret->step = row->step;
        ret->until_ms = row->alarm->cut ? 0 : row->alarm->off_ms;
        alarm_again_text(row->alarm, ret->detail);
    }
    if (row->kind == ALARMS_ROW_HOLDER) {
        str_copy(ret->client, sizeof ret->client, row->bed);
        str_copy(ret->principal, sizeof ret->principal, row->holder);
    }
    if (row->kind == ALARMS_ROW_STANDBY) {
        put_author(ret->detail, row->author);
        str_copy(ret->client, sizeof ret->client, row->bed);
        str_copy(ret->principal, sizeof ret->principal, row->author->by);
        str_copy(ret->person, sizeof ret->person, row->author->by);
        ret->until_ms = row->until_ms;
    }
}

void alarm_entry_on(const struct alarm *a, struct journal_entry *ret) {
    *ret = (struct journal_entry){.kind = JOURNAL_ALARM_ON,
                                  .received_ms = a->on_ms + a->onset_boot_ms - a->on_boot_ms,
                                  .boot_ms = a->onset_boot_ms > 0 ? a->onset_boot_ms : 0,
                                  .end_s = NAN};
    put_alarm(a, ret);
    ret->start_s = a->changed_s;
    ret->number = sample_of(a);
    str_copy(ret->where, sizeof ret->where, a->where);
    str_copy(ret->person, sizeof ret->person, *a->answered.person ? a->answered.person : a->answered.by);
}

void alarm_entry_describe(const struct alarm *a, struct journal_entry *e) {
    if (a->due_boot_ms)
        str_copy(e->detail, sizeof e->detail, untold);
    else
        alarm_again_text(a, e->detail);
}

void alarm_entry_off(const struct alarm *a, enum journal_off off, const struct alarms_now *now, struct journal_entry *ret) {
    *ret = (struct journal_entry){
        .kind = JOURNAL_ALARM_OFF, .number = -1, .received_ms = now->wall_ms, .boot_ms = now->boot_ms, .end_s = NAN};
    put_alarm(a, ret);
    ret->start_s = ret->value = NAN;
    str_copy(ret->detail, sizeof ret->detail, journal_off_name(off));
}

/* Sessions of streams are hex digits. */
bool alarm_entry_is_test(const struct journal_entry *e) { return str_starts(e->session, "test"); }

void alarm_entry_test(const char *bed, const char *principal, const struct alarms_now *now, int64_t number,
                      struct journal_entry *ret) {
    *ret = (struct journal_entry){.kind = JOURNAL_ALARM_ON,
                                  .number = 0,
                                  .received_ms = now->wall_ms,
                                  .boot_ms = now->boot_ms,
                                  .end_s = NAN,
                                  .value = NAN,
                                  .live = true};
    str_format(ret->session, sizeof ret->session, "test%llx-%lld", (unsigned long long)now->wall_ms, (long long)number);
    journal_alarm_id(ret->session, 0, ret->alarm);
    str_copy(ret->client, sizeof ret->client, bed);
    str_copy(ret->principal, sizeof ret->principal, principal);
    str_copy(ret->detail, sizeof ret->detail, ALARM_ENTRY_TEST);
}
