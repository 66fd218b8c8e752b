/* journaldb: the table of the journal: entries go in once, come out page by page, and the oldest go first. One thread
 * at a time for each database. */
#pragma once

#include "daemon/db/db.h"
#include "daemon/journal/journal_entry.h"

enum { JOURNALDB_PAGE = 500, JOURNALDB_PATTERN = 256, JOURNALDB_NAMES = 128 };

int journaldb_open(const char *path, struct db **ret, struct err *err);
/* For another thread, to read; UNAVAILABLE as long as the file does not exist. */
int journaldb_open_reader(const char *path, struct db **ret, struct err *err);

/* Writes an entry unless there is one of its session, kind and number. *ret_id: its id; 0: there was one. */
int journaldb_insert(struct db *db, const struct journal_entry *e, int64_t *ret_id, struct err *err);
int journaldb_newest(struct db *db, int64_t *ret_id, struct err *err); /* 0: there is no entry */
/* Deletes the oldest entries: at most `most`, and only those received before before_ms. The newest entry always stays.
 * *ret_n: how many were deleted. */
int journaldb_prune(struct db *db, int64_t before_ms, int most, int64_t *ret_n, struct err *err);
int journaldb_bytes(struct db *db, int64_t *ret, struct err *err); /* that the entries take in the file */

/* Which entries a reader wants. */
struct journal_filter {
    char client[JOURNALDB_PATTERN];    /* fnmatch pattern; "" = all */
    char session[JOURNAL_SESSION];     /* id, or its first characters; "" = all */
    char principal[JOURNAL_PRINCIPAL]; /* only of this one; "" = all */
    char names[JOURNALDB_NAMES];       /* only of beds for which `match` is true with them; "" = all, and what belongs to no bed */
    bool (*match)(const char *names, const char *bed);
    unsigned kinds;             /* bits 1 << kind; 0 = all */
    int64_t since_ms, until_ms; /* received in [since, until); until 0 = no end */
    int64_t since_boot_ms;      /* also what was made since then by CLOCK_BOOTTIME; 0: nothing */
    bool of_alarms;             /* only what JOURNALDB_OF_ALARMS names, by an index: other entries are not even read */
};
/* Calls visit for at most `most` entries behind the entry `after` (id), oldest first; or before it, newest first; after
 * 0: from the first, or the newest one. Stops early, without an error, when *stop becomes true. */
struct journal_page {
    int64_t after;
    bool newest_first;
    int most;
    const atomic_bool *stop;
};
typedef void journal_visit_fn(void *ctx, const struct journal_entry *e);
int journaldb_list(struct db *db, const struct journal_filter *filter, const struct journal_page *page, journal_visit_fn *visit,
                   void *ctx, struct err *err);
/* The entry that began the alarm of this id; NOT_FOUND: there is none. */
int journaldb_alarm(struct db *db, const char *alarm, struct journal_entry *ret, struct err *err);
/* The columns of an entry in a query, for journaldb_row: false if its kind is one of a later version. first: the column
 * of the id. */
enum { JOURNALDB_COLUMNS = 24 };
#define JOURNALDB_ROW                                                                                                              \
    "journal.id, kind, number, received_ms, sample_ms, start_s, end_s, value, session, principal, client, address, model, "        \
    "sha256, "                                                                                                                     \
    "detail, live, alarm, person, step, until_ms, on_ms, made_boot, made_boot_ms, at_head"
/* 1 if an entry is of a kind of journal_kind_is_alarm and neither a technical alarm nor the holder of a bed, else 0:
 * such entries are deleted last. The index journal_owner is made of this text. */
#define JOURNALDB_IS_ALARM "(kind IN ('alarm_on','alarm_off','ended','moved','told','answered','escalated','standby'))"
/* What the register of alarms is made of (alarms/alarm_entry.h). The index journal_register is made of this text. */
#define JOURNALDB_OF_ALARMS                                                                                                        \
    "kind IN ('alarm_on','alarm_off','moved','answered','escalated','standby','technical_on','technical_off','holder')"
bool journaldb_row(const struct db_query *q, int first, struct journal_entry *ret);
