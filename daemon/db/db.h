/* db: a SQLite file of the daemon (WAL, synchronous=FULL). A write that returned success survives kill -9 and power
 * loss. This is the only module that uses SQLite; the modules that keep records (jobs/jobdb, models/serveddb,
 * journal/journaldb) define their tables and write the SQL. The server opens the job database and lends it to them; the
 * journal's thread opens its own file. Outside a transaction every statement asks first whether the volume of the file
 * answers (base/volume.h), and fails as UNAVAILABLE if it does not. One thread at a time for each database that is
 * open. */
#pragma once

#include "base/base.h"

struct db;
/* Opens or creates the file; on a full volume an existing file is opened all the same, and can only be read.
 * PRECONDITION if another process has it open, or its schema is of a later version. */
int db_open(const char *path, struct db **ret, struct err *err);
/* What errors call the file, and the key of daemon.yaml that names it; static texts. */
struct db_names {
    const char *what, *key; /* "job database", "jobs.database" */
};
int db_open_named(const char *path, const struct db_names *names, struct db **ret, struct err *err);
/* Opens a file that this process has open already a second time, only to read it, for another thread. */
int db_open_reader(const char *path, const struct db_names *names, struct db **ret, struct err *err);
void db_close(struct db *db); /* every query must have ended; NULL is allowed */

const char *db_path(const struct db *db); /* of its file */
/* True if it was opened on a full volume: SQLite then shares the file with nobody, and a reader that stays open, of
 * this process too, would lock it out once a write has failed. */
bool db_is_alone(const struct db *db);
/* UNAVAILABLE if the volume of the file does not answer; may take a second. db_look does not wait, and is to be called
 * at intervals. */
int db_check(struct db *db, struct err *err);
int db_look(struct db *db, struct err *err);
/* Waits until that volume answers. For work on other threads whose end is then written on the loop. */
void db_wait(struct db *db);

struct db_column {
    const char *name, *type; /* "TEXT", "INTEGER" or "REAL" */
};
/* Creates the table with these columns, or adds the columns that a table of an earlier version lacks (their values are
 * NULL). key is the primary key, such as "job_id, step". Columns of a later version are left unchanged. */
int db_table(struct db *db, const char *table, const struct db_column *columns, size_t n, const char *key, struct err *err);

/* A transaction: db_end commits all writes since db_begin if rc is 0, and rolls them back otherwise. Returns rc, or the
 * error of the commit. Transactions do not nest. */
int db_begin(struct db *db, struct err *err);
int db_end(struct db *db, int rc, struct err *err);

/* Gives the file and its write-ahead log so many bytes of the volume beyond what they use, so that rows are written
 * when others have filled the volume. They keep these bytes, also after db_close. Only where DB_RESERVE_OF times as
 * much is free; copy-on-write volumes promise nothing. Ask again as the file grows. */
enum { DB_RESERVE_OF = 8 };
void db_reserve(struct db *db, int bytes);
int64_t db_room(const struct db *db); /* size of the file in bytes, the reserve included */

/* One statement. After db_query, pass the parameters in order with db_put_… or DB_PUT; then call db_run for a statement
 * without rows, or db_next until *ret_row is false, and db_done. After a failed db_query these do nothing, and db_run
 * and db_next return its error (the same err), so that the last of them alone must be looked at. `what` completes the
 * phrase "cannot …" of every error and must outlive the query. Errors: EXHAUSTED on a full volume, UNAVAILABLE (above),
 * else INTERNAL. */
struct db_query {
    struct db *db;
    void *statement;
    const char *what;
    int parameters, rc; /* rc: of db_query */
};
int db_query(struct db *db, const char *sql, const char *what, struct db_query *ret, struct err *err);
void db_put_text(struct db_query *q, const char *text); /* NULL is stored as "" */
void db_put_int(struct db_query *q, int64_t value);
void db_put_real(struct db_query *q, double value); /* NaN is stored as NULL */
void db_put_null(struct db_query *q);
int db_run(struct db_query *q, struct err *err); /* ends the query, with or without success */
/* Parameters in order, each put as its type says: a text, a real number, an integer. DB_RUN: a whole statement
 * without rows. */
#define DB_PUT(q, ...) EACH_MEMBER(DB_PUT_VALUE, q, , __VA_ARGS__)
#define DB_PUT_VALUE(q, _, value)                                                                                                  \
    _Generic((value), char * : db_put_text, const char * : db_put_text, double : db_put_real, bool : db_put_int, int : db_put_int, \
             int64_t : db_put_int)(q, value);
#define DB_RUN(db, sql, what, err, ...)                                                                                            \
    ({                                                                                                                             \
        struct db_query query_;                                                                                                    \
        db_query(db, sql, what, &query_, err);                                                                                     \
        __VA_OPT__(DB_PUT(&query_, __VA_ARGS__);)                                                                                  \
        db_run(&query_, err);                                                                                                      \
    })
/* *ret_row: true if there is a row to read. */
int db_next(struct db_query *q, bool *ret_row, struct err *err);
void db_done(struct db_query *q);
/* Columns of the current row, from 0. Text is valid until the next db_next, and "" for NULL; NULL is 0 as an integer
 * and NaN as a real number. */
const char *db_text(const struct db_query *q, int column);
int64_t db_int(const struct db_query *q, int column);
double db_real(const struct db_query *q, int column);
bool db_is_null(const struct db_query *q, int column);
/* Columns from `first` on into members of a struct, each read as the type of its member says: an array of characters, a
 * real number, a bool or an int64_t. */
#define DB_TAKE(q, first, to, ...)                                                                                                 \
    do {                                                                                                                           \
        int column_ = (first);                                                                                                     \
        EACH_MEMBER(DB_TAKE_MEMBER, q, to, __VA_ARGS__);                                                                           \
    } while (0)
#define DB_TAKE_MEMBER(q, to, member)                                                                                              \
    _Generic((to).member, char * : db_take_text, double : db_take_real, bool : db_take_bool, int64_t : db_take_int)(               \
        q, column_++, (void *)&(to).member, sizeof(to).member);
void db_take_text(const struct db_query *q, int column, char *to, size_t size);
void db_take_real(const struct db_query *q, int column, double *to, size_t size);
void db_take_bool(const struct db_query *q, int column, bool *to, size_t size);
void db_take_int(const struct db_query *q, int column, int64_t *to, size_t size);
/* The number in the first column of the only row, 0 without a row; ends the query. */
int db_number(struct db_query *q, int64_t *ret, struct err *err);

/* Number of rows that the newest INSERT, UPDATE or DELETE changed. */
int64_t db_changes(const struct db *db);
int64_t db_inserted(const struct db *db); /* the key of the row that was inserted last */
/* The number of the schema that this version writes. */
int64_t db_schema(void);
/* A consistent copy of the database file at `path`, which another connection may be using, as the new file `to`. Any
 * thread; waits for the volume. EXISTS: there is a file `to`. */
int db_copy(const char *path, const char *to, struct err *err);

/* Reads the whole file at `path`, which may be open elsewhere. DATA_LOSS: SQLite finds it malformed, as the cause says.
 * Other errors, such as a file that cannot be opened, say nothing about it. Any thread; waits for the volume. */
int db_verify(const char *path, struct err *err);

const char *db_library_version(void);
