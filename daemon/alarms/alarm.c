#include "daemon/alarms/alarm.h"

#include "base/order.h"
#include "base/principal.h"

static const struct {
    const char *name, *words, *over;
} kinds[ALARM_KINDS] = {[ALARM_SEIZURE] = {"alarm", "alarm", "over"},
                        [ALARM_UNANSWERED] = {"unanswered", "nobody answers", "answered"},
                        [ALARM_LOST] = {"lost", "connection lost", "back"},
                        [ALARM_NO_SIGNAL] = {"no_signal", "no signal", "back"},
                        [ALARM_TWICE] = {"twice", "two streams have this name", "over"},
                        [ALARM_LATE] = {"late", "results are late", "over"},
                        [ALARM_MODEL] = {"model", "no model", "over"},
                        [ALARM_ELECTRODES] = {"electrodes", "electrodes", "good again"},
                        [ALARM_LEARNING] = {"learning", "still learning this patient", "over"},
                        [ALARM_RATE] = {"rate", "wrong sampling rate", "over"},
                        [ALARM_CLOCK] = {"clock", "wrong clock", "over"},
                        [ALARM_RECEIVER] = {"receiver", "receiver fails", "over"},
                        [ALARM_JOURNAL] = {"journal", "journal cannot be written", "over"}};
static const char *const marks[ALARM_MARKS] = {"", "true", "false", "unclear"};
static const char *const actions[ALARM_ACTIONS] = {"acknowledge", "silence", "mark", "note"};

const char *alarm_kind_name(enum alarm_kind kind) { return kinds[kind].name; }
const char *alarm_kind_words(enum alarm_kind kind) { return kinds[kind].words; }
const char *alarm_kind_over(enum alarm_kind kind) { return kinds[kind].over; }
const char *alarm_mark_name(enum alarm_mark mark) { return marks[mark]; }
const char *alarm_action_name(enum alarm_action action) { return actions[action]; }

bool alarm_kind_find(const char *name, enum alarm_kind *ret) {
    for (int i = 0; i < ALARM_KINDS; i++)
        if (!strcmp(kinds[i].name, name)) {
            *ret = (enum alarm_kind)i;
            return true;
        }
    return false;
}

bool alarm_mark_find(const char *name, enum alarm_mark *ret) {
    const int i = STR_AMONG(name, marks);
    if (i >= ALARM_TRUE)
        *ret = (enum alarm_mark)i;
    return i >= ALARM_TRUE;
}

bool alarm_action_find(const char *name, enum alarm_action *ret) {
    const int i = STR_AMONG(name, actions);
    if (i >= 0)
        *ret = (enum alarm_action)i;
    return i >= 0;
}

bool alarm_author_is_later(const struct alarm_author *a, const struct alarm_author *b) {
    return a->boot_ms && b->boot_ms ? a->boot_ms > b->boot_ms : a->at_ms > b->at_ms;
}

bool alarm_bed_is_named(const char *bed) {
    static const char *const programs[] = {"", "brrctl", "libbrr", "brr for Python", "stream.py", "example"};
    return STR_AMONG(bed, programs) < 0;
}

bool alarm_is_waiting(const struct alarm *a) {
    return !a->answered.at_ms && (a->kind == ALARM_SEIZURE ? a->live && !a->due_boot_ms : !a->off_ms);
}

bool alarm_is_open(const struct alarm *a) { return !a->off_ms || alarm_is_waiting(a); }

int alarm_rank(const struct alarm *a) {
    if (!alarm_is_open(a))
        return 8;
    if (a->kind != ALARM_SEIZURE)
        return 7 - alarm_is_waiting(a);
    return 3 * a->test + (a->off_ms ? 2 : !alarm_is_waiting(a));
}

int alarms_by_rank(const void *a, const void *b) {
    const struct alarm *l = *(const struct alarm *const *)a, *r = *(const struct alarm *const *)b;
    return order_then(alarm_rank(l) - alarm_rank(r), order_i64(r->on_ms, l->on_ms));
}

const char *alarm_author_name(const struct alarm_author *author) {
    return *author->person ? author->person : principal_words(author->by);
}

bool alarm_is_silent(const struct alarm *a, int64_t boot_ms) { return alarm_is_waiting(a) && boot_ms < a->silent_boot_ms; }

void alarm_again_text(const struct alarm *a, char ret[ALARM_AGAIN]) {
    const time_t on = (time_t)(a->on_ms / 1000), before = (time_t)(a->before.at_ms / 1000);
    char since[32], at[32];
    struct tm tm;
    *ret = '\0';
    if (!a->again && !before)
        return;
    strftime(since, sizeof since, "%H:%M %Z", localtime_r(&on, &tm));
    if (a->again)
        str_format(ret, ALARM_AGAIN, "on again, %d %s since %s", a->again, a->again == 1 ? "time" : "times", since);
    else
        str_format(ret, ALARM_AGAIN, "on for more than 5 min since %s", since);
    if (!before)
        return;
    strftime(at, sizeof at, "%H:%M %Z", localtime_r(&before, &tm));
    const size_t len = strlen(ret);
    str_format(ret + len, ALARM_AGAIN - len, "; %s acknowledged it before, at %s",
               *a->before.person ? a->before.person : a->before.by, at);
}

int64_t alarm_length_ms(const struct alarm *a, int64_t boot_ms) {
    const double recorded_s = a->changed_s - a->joined_s;
    if (!a->live && a->off_ms && recorded_s >= 0)
        return llround(recorded_s * 1000);
    const int64_t length_ms = (a->off_ms ? a->off_boot_ms : boot_ms) - a->on_boot_ms;
    return length_ms > 0 ? length_ms : 0;
}

enum alarm_sound alarm_sound(const struct alarm *a, int64_t boot_ms) {
    if (!alarm_is_waiting(a) || alarm_is_silent(a, boot_ms))
        return ALARM_QUIET;
    return a->kind == ALARM_SEIZURE && (!a->off_ms || a->cut) ? ALARM_HIGH : ALARM_LOW;
}
