/* When the next people are called to an alarm, and when an answer does not cover it any more. */
#include "daemon/alarms/alarms_parts.h"

void alarms_begin_status(struct alarm *a, int64_t boot_ms) {
    a->status = true;
    a->silent_boot_ms = 0;
    a->sounded_boot_ms = boot_ms > a->sounded_boot_ms ? boot_ms : a->sounded_boot_ms;
}

void alarms_forget_answer(struct alarm *a, int64_t boot_ms) {
    a->before = a->answered;
    a->answered = (struct alarm_author){0};
    a->base_boot_ms = boot_ms;
    a->step = 0;
}

void alarms_sound_again(const struct alarms *all, struct alarm *a, int64_t boot_ms) {
    a->again++;
    if (!a->answered.at_ms || boot_ms - a->sounded_boot_ms < ALARMS_AGAIN_MS)
        return;
    a->sounded_boot_ms = boot_ms;
    alarms_forget_answer(a, boot_ms - all->plan.after_ms[0]);
}

void alarms_escalated(struct alarms *all, const char *id, int step, int64_t at_ms, const struct alarms_now *now) {
    struct alarm *a = map_get(all->patients, id);
    if (!a)
        return;
    a->step = step;
    a->step_boot_ms = alarms_boot_of(at_ms, now);
}

static void take_step(struct alarms *all, struct alarm *a, const struct alarms_now *now) {
    a->step++;
    a->heard = false;
    a->failed = 0;
    a->step_boot_ms = now->boot_ms;
    alarms_write(all, &(struct alarms_row){.kind = ALARMS_ROW_ESCALATED, .alarm = a, .step = a->step, ROW_AT(now)});
}

void alarms_hear(struct alarms *all, const struct alarms_told *t, const struct alarms_now *now) {
    struct alarm *a = map_get(all->patients, t->id);
    if (!a || t->step != a->step || !(t->people >> t->hook & 1))
        return;
    a->heard |= t->delivered;
    a->failed |= t->delivered ? 0 : 1u << t->hook;
    if (!a->heard && !(t->people & ~a->failed) && alarms_escalates(all, a) && a->step < all->plan.n)
        take_step(all, a, now);
}

static int64_t next_step(const struct alarms_plan *plan, const struct alarm *a) {
    return a->step < plan->n ? a->base_boot_ms + plan->after_ms[a->step] : a->step_boot_ms + plan->repeat_ms;
}

/* A seizure that lasts so long is status epilepticus: an alarm that somebody acknowledged before is one again. */
static void look_for_status(struct alarms *all, struct alarm *a, const struct alarms_now *now) {
    if (a->status || a->off_ms || !a->live || now->boot_ms - a->on_boot_ms < ALARMS_STATUS_MS ||
        (a->answered.at_ms && !alarms_add(all, ADDED_CALLS, a->principal, now)))
        return;
    alarms_begin_status(a, now->boot_ms);
    all->changed = true;
    if (!a->answered.at_ms)
        return;
    alarms_forget_answer(a, now->boot_ms);
    alarms_write(all, &(struct alarms_row){.kind = ALARMS_ROW_FORGOTTEN, .alarm = a, ROW_AT(now)});
}

void alarms_escalate(struct alarms *all, struct alarm *a, const struct alarms_now *now) {
    look_for_status(all, a, now);
    const enum alarms_added kind = a->step < all->plan.n ? ADDED_CALLS : ADDED_REPEATS;
    if (alarms_escalates(all, a) && now->boot_ms >= next_step(&all->plan, a) && alarms_add(all, kind, a->principal, now))
        take_step(all, a, now);
}
