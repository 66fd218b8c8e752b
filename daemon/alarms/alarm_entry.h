/* alarm_entry: alarms as entries of the journal: what the model appends (answers, steps, standbys), and what an entry means for the
 * model, whether it was just made or comes from the disk after a restart. Loop thread. */
#pragma once
#include "daemon/alarms/alarms.h"

/* Kinds of entries that alarm_entry_take uses, as bits 1 << enum journal_kind. */
unsigned alarm_entry_kinds(void);
/* What the entry that begins an alarm says of it; texts are borrowed. */
struct alarms_start alarm_entry_start(const struct journal_entry *e);
/* Tells the model what the entry says; other kinds of entries are ignored. Ages are measured by CLOCK_BOOTTIME, or by the wall
 * clock where the entry is from before this boot of the machine. */
void alarm_entry_take(struct alarms *all, const struct journal_entry *e, const struct alarms_now *now);
/* The cause of a technical alarm, by its entry, from which texts are borrowed; false: of a later version. */
bool alarm_entry_cause(const struct journal_entry *e, struct alarms_cause *ret);
/* What somebody answered, by its entry; false: of a later version. */
bool alarm_entry_answer(const struct journal_entry *e, struct alarm_answer *ret);
void alarm_entry_make(const struct alarms_row *row, struct journal_entry *ret);
/* So begins the detail of the row by which people are told of an alarm later than its onset; rows of earlier versions
 * go on otherwise. */
#define ALARM_ENTRY_TOLD "people are told: "
/* The entry of the newest onset of the alarm, which is on in its session; its on_ms is that of the first one. */
void alarm_entry_on(const struct alarm *a, struct journal_entry *ret);
/* The detail of an entry by which the alarm is on: that a rule holds it back, or that it is on again. */
void alarm_entry_describe(const struct alarm *a, struct journal_entry *e);
/* The entry with which the alarm goes off in its session. */
void alarm_entry_off(const struct alarm *a, enum journal_off off, const struct alarms_now *now, struct journal_entry *ret);
/* The entry that begins a test alarm of this bed. The hooks and the escalation take it as they
 * take an alarm; its detail is ALARM_ENTRY_TEST. number: each test has another one. */
#define ALARM_ENTRY_TEST "a test; no alarm"
/* True if the entry belongs to a test alarm: its begin, end, answers, escalations, and that nobody answers it. */
bool alarm_entry_is_test(const struct journal_entry *e);
void alarm_entry_test(const char *bed, const char *principal, const struct alarms_now *now, int64_t number,
                      struct journal_entry *ret);
