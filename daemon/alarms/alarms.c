#include "daemon/alarms/alarms.h"

#include "base/principal.h"
#include "base/queue.h"
#include "daemon/alarms/alarms_parts.h"

enum { SAME_SILENCE_MS = 2000 };

struct alarms *alarms_new(const struct alarms_plan *plan, alarms_row_fn *row, void *ctx) {
    struct alarms *all = calloc(1, sizeof *all);
    if (!all)
        return NULL;
    *all = (struct alarms){.plan = *plan,
                           .row = row,
                           .ctx = ctx,
                           .patients = map_new(ALARMS_MAX),
                           .on = map_new(ALARMS_MAX),
                           .away = map_new(ALARMS_MAX),
                           .technical = map_new(ALARMS_MAX),
                           .standbys = map_new(ALARMS_STANDBYS),
                           .holders = map_new((size_t)plan->n_roster + 1)};
    bool whole = all->patients && all->on && all->away && all->technical && all->standbys && all->holders;
    for (int i = 0; whole && i < plan->n_roster; i++) {
        void *before = NULL, *holder = calloc(1, sizeof(struct holder));
        whole = holder && !map_put(all->holders, plan->roster[i], holder, &before);
        free(whole ? before : holder);
    }
    if (whole && alarms_use_rules(all, plan->rules, plan->n_rules))
        return all;
    alarms_free(all);
    return NULL;
}

void alarms_free(struct alarms *all) {
    if (!all)
        return;
    map_free(all->patients, free);
    map_free(all->on, NULL);
    map_free(all->away, free);
    map_free(all->technical, free);
    map_free(all->standbys, free);
    map_free(all->rules, free);
    map_free(all->holders, free);
    free(all);
}

void alarms_restore(struct alarms *all, bool restore) { all->restoring = restore; }

/* ---- alarms of patients ---- */

/* Alarms that are closed go first, then those of replays. */
static int rank_of(const struct alarm *a) { return !alarm_is_open(a) ? 2 : !a->live; }

static uint16_t hash_of_name(const char *bed, const char *session) {
    return alarms_hash(2166136261U, alarm_bed_is_named(bed) ? bed : session) % SHARES;
}

/* False: out of memory, and p is freed. */
static bool list_patient(struct alarms *all, struct patient *p, const char *session) {
    if (map_put(all->patients, p->alarm.id, p, NULL)) {
        free(p);
        return false;
    }
    p->name = hash_of_name(p->alarm.bed, session);
    CHAIN_ADD(all->of_name[p->name], p, next, before);
    return true;
}

static struct patient *unlist_patient(struct alarms *all, const struct alarm *a) {
    struct patient *p = map_remove(all->patients, a->id);
    CHAIN_REMOVE(all->of_name[p->name], p, next, before);
    return p;
}

/* n: 1 or -1. */
static void tally_add(struct tally *t, int hash, int n) {
    const int before = t->of[hash], now = before + n;
    t->of[hash] = (uint16_t)now;
    t->with[before]--; /* that of 0 says nothing */
    t->with[now]++;
    t->most = now > t->most || (before == t->most && !t->with[before]) ? now : t->most;
}

static void count_alarm(struct alarms *all, const struct patient *p, int n) {
    struct shares *s = &all->shares[p->rank];
    s->n += n;
    tally_add(&s->principals, p->principal, n);
    tally_add(&s->beds, p->bed, n);
}

/* Around each change of what an alarm is counted and found by: whether it is open, and the session in which it is on. */
static void take_out(struct alarms *all, struct alarm *a) {
    if (map_get(all->on, a->session) == a)
        map_remove(all->on, a->session);
    count_alarm(all, (struct patient *)a, -1);
}

static void put_in(struct alarms *all, struct alarm *a) {
    struct patient *p = (struct patient *)a;
    const uint32_t principal = alarms_hash(2166136261U, a->principal);
    p->principal = principal % SHARES;
    p->bed = alarms_hash(principal, a->bed) % SHARES;
    p->rank = rank_of(a);
    count_alarm(all, p, 1);
    if (!a->off_ms)
        (void)map_put(all->on, a->session, a, NULL); /* without memory its end is found by its id */
    all->changed = true;
}

static void forget_alarm(struct alarms *all, struct alarm *a) {
    take_out(all, a);
    free(unlist_patient(all, a));
    all->changed = true;
}

/* Makes room for one more alarm. Of the alarms that go first, the principal with the most loses the oldest of its bed with the
 * most, so that a client whose beds alarm without end pushes out no alarm of another client. */
static void make_room(struct alarms *all) {
    struct patient *gone = NULL;
    int rank = RANKS - 1, most = 0;
    void *at;
    if (map_count(all->patients) < ALARMS_MAX)
        return;
    while (rank && !all->shares[rank].n)
        rank--;
    const struct shares *s = &all->shares[rank];
    for (size_t cursor = 0; most < s->beds.most && alarms_each(all->patients, &cursor, &at);) {
        struct patient *p = at;
        if (p->rank != rank || s->principals.of[p->principal] < s->principals.most || s->beds.of[p->bed] <= most)
            continue;
        gone = p;
        most = s->beds.of[p->bed];
    }
    forget_alarm(all, &gone->alarm);
}

const struct alarm *alarms_on_in(const struct alarms *all, const char *session) { return map_get(all->on, session); }

static void end_silences(struct alarms *all) {
    void *at;
    if (!all->silenced)
        return;
    all->silenced = false;
    for (size_t cursor = 0; alarms_each(all->patients, &cursor, &at);)
        ((struct alarm *)at)->silent_boot_ms = 0;
    for (size_t cursor = 0; alarms_each(all->technical, &cursor, &at);)
        ((struct technical *)at)->alarm.silent_boot_ms = 0;
}

static struct alarm *add(struct alarms *all, const struct alarms_start *start, const struct alarms_now *now) {
    struct patient *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    struct alarm *a = &p->alarm;
    make_room(all);
    const int64_t first_ms = start->first_ms && start->first_ms < start->on_ms ? start->first_ms : start->on_ms;
    *a = (struct alarm){SAME_MEMBERS(*start, start_s, live, test, value), .on_ms = first_ms};
    a->on_boot_ms = alarms_boot_of(first_ms, now);
    a->base_boot_ms = a->sounded_boot_ms = a->on_boot_ms;
    a->joined_s = start->start_s;
    COPY_TEXTS(*a, *start, id, bed, principal, model);
    if (!list_patient(all, p, start->session))
        return NULL;
    put_in(all, a);
    return a;
}

/* ---- rules of beds ---- */

static const struct alarms_rule *rule_of(const struct alarms *all, const char *principal, const char *bed) {
    return alarms_is_anothers(all, principal, bed) ? NULL : map_get(all->rules, bed);
}

/* When people are told of an alarm of this bed that begins then; 0: at once. */
static int64_t due_of(const struct alarms *all, const char *principal, const char *bed, int64_t on_boot_ms) {
    const struct alarms_rule *rule = rule_of(all, principal, bed);
    return !rule ? 0 : rule->off ? INT64_MAX : rule->least_ms ? on_boot_ms + rule->least_ms : 0;
}

bool alarms_are_off(const struct alarms *all, const char *bed) {
    const struct alarms_rule *rule = map_get(all->rules, bed);
    return rule && rule->off;
}

/* With no rule any more the next tick tells what was held back. */
static void look_at_rule(const struct alarms *all, struct alarm *a) {
    const int64_t due = due_of(all, a->principal, a->bed, a->on_boot_ms);
    if (a->due_boot_ms && !a->off_ms)
        a->due_boot_ms = due + !due;
}

bool alarms_use_rules(struct alarms *all, const struct alarms_rule *rules, int n) {
    struct map *map = map_new((size_t)n + 1);
    bool whole = map != NULL;
    void *at;
    for (int i = 0; map && i < n; i++) {
        struct alarms_rule *copy = malloc(sizeof *copy);
        if (copy)
            *copy = (struct alarms_rule){SAME_MEMBERS(rules[i], off, least_ms)};
        if (!copy || map_put(map, rules[i].bed, copy, NULL)) {
            free(copy);
            whole = false;
        }
    }
    if (!map)
        return false;
    map_free(all->rules, free);
    all->rules = map;
    for (size_t cursor = 0; alarms_each(all->patients, &cursor, &at);)
        look_at_rule(all, at);
    all->changed = true;
    return whole;
}

/* People hear of it from now on. */
static void begin_telling(struct alarm *a, int64_t boot_ms) {
    a->due_boot_ms = 0;
    a->sounded_boot_ms = a->base_boot_ms = boot_ms;
}

void alarms_due(struct alarms *all, const char *id, int64_t at_ms, const struct alarms_now *now) {
    struct alarm *a = map_get(all->patients, id);
    if (!a)
        return;
    end_silences(all);
    begin_telling(a, alarms_boot_of(at_ms, now));
}

static void tell_now(struct alarms *all, struct alarm *a, const struct alarms_now *now) {
    end_silences(all);
    begin_telling(a, now->boot_ms);
    alarms_write(all, &(struct alarms_row){.kind = ALARMS_ROW_DUE, .alarm = a, ROW_AT(now)});
}

static void look_for_due(struct alarms *all, struct alarm *a, const struct alarms_now *now) {
    if (a->due_boot_ms && !a->off_ms && now->boot_ms >= a->due_boot_ms && !all->restoring)
        tell_now(all, a, now);
}

/* Whether people must hear of an alarm that was held back and is over: it was cut, so nobody knows how it went on, or it was on for
 * the least duration after all: before a tick saw it, or by its samples, which after an outage come faster than time. */
static bool must_tell_end(const struct alarms *all, const struct alarm *a, const struct alarms_end *end,
                          const struct alarms_now *now) {
    const struct alarms_rule *rule = rule_of(all, a->principal, a->bed);
    if (!a->due_boot_ms || (rule && rule->off))
        return false;
    return strcmp(end->why, journal_off_name(JOURNAL_OFF_ENDED)) != 0 || alarms_boot_of(end->off_ms, now) >= a->due_boot_ms ||
           (rule && (end->at_s - a->changed_s) * 1000 >= (double)rule->least_ms);
}

static void set_off(struct alarm *a, const struct alarms_end *end, const struct alarms_now *now) {
    a->off_ms = end->off_ms;
    a->off_boot_ms = alarms_boot_of(end->off_ms, now);
    a->blind = false;
    a->changed_s = end->at_s;
    a->cut = strcmp(end->why, journal_off_name(JOURNAL_OFF_ENDED)) != 0;
    str_copy(a->why, sizeof a->why, end->why);
}

static void turn_off(struct alarms *all, struct alarm *a, const struct alarms_end *end, const struct alarms_now *now) {
    if (a->off_ms)
        return;
    if (!all->restoring && must_tell_end(all, a, end, now))
        tell_now(all, a, now);
    take_out(all, a);
    set_off(a, end, now);
    put_in(all, a);
}

/* Another alarm is on in its session since then. */
static struct alarms_end unreported(double at_s, int64_t off_ms) {
    return (struct alarms_end){.why = "its end was not reported", .at_s = at_s, .off_ms = off_ms};
}

/* Of the same caller; or the bed of the roster has another holder since, and the one before is not heard. */
static bool is_bed_of(const struct alarms *all, const struct alarm *a, const struct alarms_start *start) {
    return principal_is_same(a->principal, start->principal) ||
           (a->held && (a->off_ms || a->blind) && alarms_holds(all, start->principal, start->bed));
}

/* Whether a stream of this bed may go on with the alarm: by the samples of its own session, or by the clock. */
static bool goes_on(const struct alarms *all, const struct alarm *a, const struct alarms_start *start,
                    const struct alarms_now *now) {
    const double rejoin_s = (double)all->plan.rejoin_ms / 1000;
    if (a->test || a->live != start->live)
        return false;
    if (!strcmp(a->session, start->session))
        return start->start_s >= a->joined_s && start->start_s - a->changed_s < rejoin_s;
    return start->alone && alarm_bed_is_named(start->bed) && !strcmp(a->bed, start->bed) &&
           (!a->off_ms || now->boot_ms - a->off_boot_ms < all->plan.rejoin_ms) && is_bed_of(all, a, start);
}

/* Also: it is still on. */
static bool ends_after(const struct alarm *a, const struct alarm *b) {
    return b->off_ms && (!a->off_ms || a->off_boot_ms > b->off_boot_ms);
}

/* Whether the stream had an alarm at another daemon that has only just ended, and of which this one knows nothing. */
static bool comes_with(const struct alarms *all, const struct alarms_start *start) {
    const char *before = start->before ? start->before : "";
    const struct alarm *away = map_get(all->away, before);
    return *before && start->start_s - start->before_s < (double)all->plan.rejoin_ms / 1000 && !map_get(all->patients, before) &&
           (!away || !strcmp(away->session, start->session));
}

void alarms_name(const struct alarms *all, const struct alarms_start *start, const struct alarms_now *now,
                 char ret[JOURNAL_ALARM]) {
    const struct alarm *newest = NULL;
    for (const struct patient *p = all->of_name[hash_of_name(start->bed, start->session)]; p; p = p->next)
        newest = goes_on(all, &p->alarm, start, now) && (!newest || !ends_after(newest, &p->alarm)) ? &p->alarm : newest;
    if (newest)
        str_copy(ret, JOURNAL_ALARM, newest->id);
    else if (comes_with(all, start))
        str_copy(ret, JOURNAL_ALARM, start->before);
    else
        journal_alarm_id(start->session, llround(start->start_s * 256), ret);
}

bool alarms_knows(const struct alarm *a, const char *session, double at_s) {
    return !strcmp(a->session, session) && at_s < a->changed_s;
}

/* An older stream of the bed, as its snapshot says it after a restart: another one has taken the alarm over since. */
static bool was_taken_over(const struct alarm *a, const char *session, int64_t boot_ms) {
    return strcmp(a->session, session) != 0 && boot_ms < a->joined_boot_ms;
}

/* The same of an alarm that went to another daemon with the newer stream. */
static bool went_away(const struct alarms *all, const struct alarms_start *start, int64_t boot_ms) {
    const struct alarm *away = map_get(all->away, start->id);
    return away && was_taken_over(away, start->session, boot_ms);
}

/* Without memory an older stream of the bed may take it for its own. Takes p. */
static void keep_away(struct alarms *all, struct patient *p) {
    void *before = NULL;
    const char *key;
    size_t cursor = 0;
    p->moved = false;
    if (map_count(all->away) == ALARMS_MAX && map_next(all->away, &cursor, &key, &before))
        free(map_remove(all->away, key));
    before = NULL;
    free(map_put(all->away, p->alarm.id, p, &before) ? p : before);
}

/* A row of this daemon after the one of the move: the alarm is here again. answered: the answer of before covers it. */
static void come_back(struct alarms *all, struct alarm *a, bool answered) {
    struct patient *p = (struct patient *)a;
    if (!p->moved)
        return;
    take_out(all, a);
    p->moved = false;
    if (!answered)
        a->answered = (struct alarm_author){0};
    put_in(all, a);
}

/* The alarm of the stream that comes from another daemon, with what people did about it. At a later sample it is on again. */
static struct alarm *take_back(struct alarms *all, const struct alarms_start *start, int64_t boot_ms) {
    struct patient *p = map_remove(all->away, start->id);
    if (!p)
        return NULL;
    make_room(all);
    if (!list_patient(all, p, start->session))
        return NULL;
    if (!p->alarm.off_ms && start->start_s > p->alarm.changed_s) {
        p->alarm.off_ms = start->on_ms;
        p->alarm.off_boot_ms = boot_ms;
    }
    put_in(all, &p->alarm);
    return &p->alarm;
}

const struct alarm *alarms_began(struct alarms *all, const struct alarms_start *start, const struct alarms_now *now) {
    struct alarm *a = map_get(all->patients, start->id);
    struct alarm *before = map_get(all->on, start->session);
    if (before && before != a) {
        const struct alarms_end end = unreported(start->start_s, start->on_ms);
        turn_off(all, before, &end, now);
    }
    const int64_t boot_ms = alarms_boot_of(start->on_ms, now);
    if (a)
        come_back(all, a, start->answered);
    if (a && (alarms_knows(a, start->session, start->start_s) || was_taken_over(a, start->session, boot_ms)))
        return a;
    if (went_away(all, start, boot_ms))
        return NULL;
    a = a ? a : take_back(all, start, boot_ms);
    const bool may_wait = start->live && !start->test && (start->untold || !all->restoring); /* else people know it already */
    const int64_t rule = may_wait ? due_of(all, start->principal, start->bed, boot_ms) : 0;
    const int64_t due = rule ? rule : start->untold;
    const bool untold = !a || (a->off_ms && a->due_boot_ms); /* one that was told before goes on being told */
    if (untold && start->live && !due)
        end_silences(all);
    if (!a && !(a = add(all, start, now)))
        return NULL;
    take_out(all, a);
    if (a->off_ms)
        alarms_sound_again(all, a, boot_ms);
    if (untold) {
        begin_telling(a, boot_ms);
        a->due_boot_ms = due;
    }
    if (strcmp(a->session, start->session) != 0) {
        str_copy(a->session, sizeof a->session, start->session);
        a->joined_s = start->start_s;
        a->joined_boot_ms = boot_ms;
        str_copy(a->principal, sizeof a->principal, start->principal);
    }
    a->held = alarms_holds(all, a->principal, a->bed);
    a->changed_s = start->start_s;
    a->onset_boot_ms = boot_ms;
    a->off_ms = a->off_boot_ms = 0;
    a->cut = false;
    *a->why = '\0';
    if (start->where && *start->where)
        str_copy(a->where, sizeof a->where, start->where);
    put_in(all, a);
    return a;
}

void alarms_ended(struct alarms *all, const struct alarms_end *end, const struct alarms_now *now) {
    struct alarm *a = map_get(all->patients, end->id);
    const bool elsewhere = isnan(end->at_s) && *end->id; /* an id of another daemon (desk.c: end_under) */
    a = a || elsewhere ? a : map_get(all->on, end->session);
    if (!a || strcmp(a->session, end->session) != 0 || alarms_knows(a, end->session, end->at_s))
        return;
    come_back(all, a, true);
    turn_off(all, a, end, now);
}

void alarms_moved(struct alarms *all, const char *session, const struct alarms_now *now) {
    struct alarm *a = map_get(all->on, session);
    alarms_technical_moved(all, session, now);
    if (a && all->restoring)
        ((struct patient *)a)->moved = true;
    if (!a || all->restoring)
        return;
    take_out(all, a);
    keep_away(all, unlist_patient(all, a));
    all->changed = true;
}

void alarms_carried_by(struct alarms *all, const char *id, const char *where) {
    struct alarm *a = map_get(all->patients, id);
    a = a ? a : map_get(all->away, id);
    if (!a || *a->where)
        return;
    str_copy(a->where, sizeof a->where, where);
    all->changed = true;
}

static bool holds_onset(const struct alarm *a, const struct alarms_start *start) {
    return !strcmp(a->session, start->session) && a->joined_s <= start->start_s && (!a->off_ms || start->start_s <= a->changed_s);
}

/* The monitoring of the session stopped after this onset, wherever that was. */
static bool was_cut_after(const struct alarm *a, const char *session, int64_t boot_ms) {
    return a->cut && !strcmp(a->session, session) && boot_ms <= a->off_boot_ms;
}

const struct alarm *alarms_of_onset(const struct alarms *all, const struct alarms_start *start, const struct alarms_now *now) {
    const struct alarm *same = map_get(all->patients, start->id), *on = alarms_on_in(all, start->session);
    const int64_t boot_ms = alarms_boot_of(start->on_ms, now);
    if (same &&
        (was_taken_over(same, start->session, boot_ms) || was_cut_after(same, start->session, boot_ms) || holds_onset(same, start)))
        return same;
    for (const struct patient *p = all->of_name[hash_of_name(start->bed, start->session)]; p; p = p->next)
        if (holds_onset(&p->alarm, start))
            return &p->alarm;
    return on;
}

/* ---- time ---- */

void alarms_tick(struct alarms *all, const struct alarms_now *now) {
    void *at;
    for (size_t cursor = 0; alarms_each(all->patients, &cursor, &at);) {
        struct alarm *a = at;
        look_for_due(all, a, now);
        alarms_escalate(all, a, now);
        if (a->silent_boot_ms && now->boot_ms >= a->silent_boot_ms) {
            a->silent_boot_ms = 0;
            all->changed = true;
        }
    }
    alarms_forget_standbys(all, now);
}

/* ---- answers ---- */

static struct alarm *find(const struct alarms *all, const char *id) {
    struct alarm *a = map_get(all->patients, id);
    void *at;
    for (size_t cursor = 0; !a && *id && alarms_each(all->technical, &cursor, &at);) {
        struct technical *t = at;
        if (t->begun && !strcmp(t->alarm.id, id))
            a = &t->alarm;
    }
    return a;
}

static int check(const struct alarm *a, const struct alarm_answer *answer, struct err *err) {
    if (answer->action == ALARM_SILENCE && (answer->for_ms <= 0 || answer->for_ms > ALARMS_SILENCE_MS))
        return err_set(err, ERR_INVALID, "an alarm can be silenced for 1 s to 10 min, not for %.0f s",
                       (double)answer->for_ms / 1000);
    if (answer->action == ALARM_MARK && a->kind != ALARM_SEIZURE)
        return err_set(err, ERR_INVALID, "the alarm %s is about the equipment; only alarms of patients are marked", a->id);
    return 0;
}

/* False: it has this answer already. */
static bool apply(struct alarm *a, const struct alarm_answer *answer, const struct alarms_now *now) {
    const int64_t given = alarms_boot_of(answer->author.at_ms, now), silent = given + answer->for_ms;
    const bool in_status = !a->off_ms && given - a->on_boot_ms >= ALARMS_STATUS_MS;
    switch (answer->action) {
    case ALARM_ACKNOWLEDGE:
        if (a->answered.at_ms && (a->status || !in_status)) /* from the journal comes the answer to the status too */
            return false;
        if (in_status && !a->status)
            alarms_begin_status(a, a->on_boot_ms + ALARMS_STATUS_MS);
        a->answered = answer->author;
        return true;
    case ALARM_SILENCE:
        if (silent <= a->silent_boot_ms + SAME_SILENCE_MS)
            return false;
        a->silent_boot_ms = silent;
        a->silent_ms = answer->author.at_ms + answer->for_ms;
        a->silenced = answer->author;
        return true;
    case ALARM_MARK:
        if (a->mark == answer->mark)
            return false;
        a->mark = answer->mark;
        return true;
    default:
        if (!strcmp(a->note, answer->note))
            return false;
        str_copy(a->note, sizeof a->note, answer->note);
        a->noted = answer->author;
        return true;
    }
}

int alarms_answer(struct alarms *all, const char *id, const struct alarm_answer *answer, const struct alarms_now *now,
                  struct err *err) {
    struct alarm *a = find(all, id), *away = a ? NULL : map_get(all->away, id);
    a = a ? a : away; /* its answer comes back before it is on again */
    if (!a || (away && !all->restoring))
        return err_set(err, ERR_NOT_FOUND, "there is no alarm '%.60s'; `brrctl alarms` lists them", id);
    int rc = check(a, answer, err);
    if (rc)
        return rc;
    if (!apply(a, answer, now) || a == away)
        return 0;
    all->silenced |= answer->action == ALARM_SILENCE;
    if (a->kind == ALARM_SEIZURE) {
        take_out(all, a);
        put_in(all, a);
    }
    alarms_write(all, &(struct alarms_row){
                          .kind = ALARMS_ROW_ANSWERED, .alarm = a, .answer = answer, SAME_MEMBERS(answer->author, at_ms, boot_ms)});
    return 0;
}

void alarms_forgotten(struct alarms *all, const char *id, int64_t at_ms, const struct alarms_now *now) {
    struct alarm *a = map_get(all->patients, id);
    if (!a || a->status)
        return;
    take_out(all, a);
    alarms_begin_status(a, alarms_boot_of(at_ms, now));
    alarms_forget_answer(a, alarms_boot_of(at_ms, now));
    put_in(all, a);
}

/* ---- alarms from before the start ---- */

/* Gives the alarm of this register the answers and the channels that it lacks. */
static void give_answers(struct alarms *all, struct alarm *to, const struct alarm *from, const struct alarms_now *now) {
    struct alarm_answer answer = {.action = ALARM_ACKNOWLEDGE, .author = from->answered};
    if (answer.author.at_ms)
        (void)alarms_answer(all, to->id, &answer, now, NULL);
    if (from->silent_boot_ms > to->silent_boot_ms) {
        COPY_MEMBERS(*to, *from, silenced, silent_ms, silent_boot_ms);
    }
    to->mark = to->mark ? to->mark : from->mark;
    if (!*to->note)
        str_copy(to->note, sizeof to->note, from->note);
    if (!*to->where)
        str_copy(to->where, sizeof to->where, from->where);
}

static void take_patient(struct alarms *all, struct patient *p, const struct alarms_now *now) {
    struct alarm *a = &p->alarm, *known = map_get(all->patients, a->id);
    const struct alarm *on = alarms_on_in(all, a->session);
    const bool no_room = !alarm_is_open(a) && map_count(all->patients) == ALARMS_MAX;
    if (known && !strcmp(known->session, a->session) && known->changed_s == a->changed_s) {
        known->due_boot_ms = a->due_boot_ms; /* of the same onset, of which people were told or not */
        look_at_rule(all, known);
    }
    if (known)
        give_answers(all, known, a, now);
    else if (!no_room)
        make_room(all);
    if (known || no_room) {
        free(p);
        return;
    }
    if (!list_patient(all, p, a->session))
        return;
    if (on && !a->off_ms) {
        const struct alarms_end end = unreported(on->start_s, on->on_ms);
        set_off(a, &end, now);
    }
    look_at_rule(all, a);
    a->held = alarms_holds(all, a->principal, a->bed);
    put_in(all, a);
}

static void take_technical(struct alarms *all, const struct alarm *a, const struct alarms_now *now) {
    const struct alarms_cause cause = {SAME_MEMBERS(*a, kind, bed, principal, session, why)};
    struct alarm *taken = alarms_technical(all, a->id, &cause, a->on_ms, now);
    if (!taken)
        return;
    taken->on_boot_ms = a->on_boot_ms;
    give_answers(all, taken, a, now);
}

bool alarms_merge(struct alarms *all, struct alarms *past, int most, const struct alarms_now *now) {
    const char *key;
    void *at;
    all->restoring = true;
    all->silenced |= past->silenced;
    for (size_t cursor = 0; most && map_next(past->patients, &cursor, &key, &at); most--) {
        struct patient *p = unlist_patient(past, at);
        if (p->moved)
            keep_away(all, p);
        else
            take_patient(all, p, now);
    }
    all->restoring = false;
    all->changed = true;
    if (!most)
        return false;
    all->restoring = true;
    for (size_t cursor = 0; alarms_each(past->technical, &cursor, &at);)
        if (((const struct technical *)at)->begun)
            take_technical(all, at, now);
    alarms_merge_standbys(all, past);
    for (size_t cursor = 0; map_next(past->holders, &cursor, &key, &at);) {
        struct holder *h = map_get(all->holders, key);
        if (h && *((const struct holder *)at)->principal)
            *h = *(const struct holder *)at;
    }
    all->restoring = false;
    return true;
}

/* ---- reading ---- */

const struct alarm *alarms_find(const struct alarms *all, const char *id) { return find(all, id); }

const struct alarm *alarms_away(const struct alarms *all, const char *id) { return map_get(all->away, id); }

/* Its caller held this bed of the roster, and another one does now: the alarm goes with the bed. */
static void hand_over(struct alarms *all, struct alarm *a) {
    const struct holder *h = map_get(all->holders, a->bed);
    if (!a->held || !h || !*h->principal || alarms_holds(all, a->principal, a->bed))
        return;
    take_out(all, a);
    str_copy(a->principal, sizeof a->principal, h->principal);
    put_in(all, a);
}

void alarms_look_at_bed(struct alarms *all, const char *id, bool heard) {
    struct alarm *a = map_get(all->patients, id);
    if (a && !heard)
        hand_over(all, a);
    const bool blind = a && !heard && !a->off_ms && a->live && !a->test;
    if (!a || a->blind == blind)
        return;
    a->blind = blind;
    all->changed = true;
}

const struct alarm *alarms_next(const struct alarms *all, struct alarms_cursor *cursor) {
    void *at;
    if (!cursor->technical) {
        if (alarms_each(all->patients, &cursor->at, &at))
            return at;
        *cursor = (struct alarms_cursor){.technical = true};
    }
    while (alarms_each(all->technical, &cursor->at, &at))
        if (((const struct technical *)at)->begun)
            return &((const struct technical *)at)->alarm;
    return NULL;
}

bool alarms_changed(struct alarms *all) {
    const bool changed = all->changed;
    all->changed = false;
    return changed;
}
