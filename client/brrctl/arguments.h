/* arguments: the command line after the command, read by a table of options for each command into the command's own struct. Help,
 * completion and errors come from the same tables. */
#pragma once

#include "base/base.h"

enum { ARGUMENTS_MAX_LIST = 64 };

/* The values of an option that may be repeated. */
struct argument_list {
    const char *items[ARGUMENTS_MAX_LIST];
    int n;
};

/* FLAG: bool. TEXT, OUTPUT, CHOICE: const char *, NULL = not given. OUTPUT: a file that the command writes, or a folder for files;
 * a file there that brrd did not write is replaced only with --force, which every command with such an option accepts. ASSIGNMENT
 * ("K=V"), LIST: struct argument_list. NUMBER: double, NaN = not given. INTEGER: int64_t, -1 = not given. */
enum argument_kind {
    ARGUMENT_FLAG,
    ARGUMENT_TEXT,
    ARGUMENT_OUTPUT,
    ARGUMENT_ASSIGNMENT,
    ARGUMENT_LIST,
    ARGUMENT_CHOICE,
    ARGUMENT_NUMBER,
    ARGUMENT_INTEGER
};

/* One option of a command. */
struct argument {
    const char *name, *alias; /* "--output", "--out" or NULL */
    enum argument_kind kind;
    size_t offset;     /* of its field in the command's struct */
    const char *value; /* of the help: "FILE"; CHOICE: "read|stream"; FLAG: "" */
    const char *help;
    double min, max; /* numbers */
};
/* The file of a table names the command's struct: #define OPTIONS struct tune_options. Its members are then own(o)->member. */
#define own(o) ((const OPTIONS *)(o)->own)
/* Rows. The last arguments may name further members of the row: .alias = "--out". */
#define FLAG(name, member, help, ...)                 ARGUMENT(name, FLAG, member, "", help, ##__VA_ARGS__)
#define TEXT(name, member, value, help, ...)          ARGUMENT(name, TEXT, member, value, help, ##__VA_ARGS__)
#define OUTPUT(name, member, value, help, ...)        ARGUMENT(name, OUTPUT, member, value, help, ##__VA_ARGS__)
#define ASSIGNMENT(name, member, value, help, ...)    ARGUMENT(name, ASSIGNMENT, member, value, help, ##__VA_ARGS__)
#define LIST(name, member, value, help, ...)          ARGUMENT(name, LIST, member, value, help, ##__VA_ARGS__)
#define CHOICE(name, member, values, help, ...)       ARGUMENT(name, CHOICE, member, values, help, ##__VA_ARGS__)
#define NUMBER(name, member, value, help, low, high)  ARGUMENT(name, NUMBER, member, value, help, .min = low, .max = high)
#define INTEGER(name, member, value, help, low, high) ARGUMENT(name, INTEGER, member, value, help, .min = low, .max = high)
#define ARGUMENT(word, type, member, text, meaning, ...)                                                                           \
    { .name = word, .kind = ARGUMENT_##type, .offset = offsetof(OPTIONS, member), .value = text, .help = meaning, ##__VA_ARGS__ }

/* All options of a command; size: bytes of its struct. local: it needs no daemon, so that help and completion leave out the options
 * of the connection. fetches: its OUTPUT files are copies of others' files, which are not listed as brrd's own. */
struct argument_table {
    const struct argument *rows;
    int n;
    size_t size;
    bool local, fetches;
};
#define ARGUMENT_TABLE(list, ...)                                                                                                  \
    { .rows = (list), .n = sizeof(list) / sizeof *(list), .size = sizeof(OPTIONS), ##__VA_ARGS__ }
#define ARGUMENTS(list, ...) (&(const struct argument_table)ARGUMENT_TABLE(list, ##__VA_ARGS__))
extern const struct argument_table arguments_none;  /* only those of all commands */
extern const struct argument_table arguments_local; /* of a command that needs no daemon: without the options of a connection */

/* The options that every command accepts, followed by the command's own options. */
struct arguments {
    const char **args; /* the plain words after the command; n_args of them */
    int n_args;
    bool json, force;
    const char *endpoint, *tls_ca, *token_file, *tls_cert, *tls_key;
    void *own; /* the command's struct */
};

/* The value of a NUMBER, or this one where it was not given. */
static inline double argument_or(double given, double otherwise) { return isnan(given) ? otherwise : given; }

/* Reads argv[2..]. table: NULL: no option at all. False with a message on stderr. arguments_done frees. */
bool arguments_parse(int argc, char **argv, const struct argument_table *table, struct arguments *ret);
void arguments_done(struct arguments *a);

/* The output files of a command. Before it runs, a file that is not brrd's own (store/outputs.h) is refused with EXISTS; when it
 * has ended, the files that it wrote are listed as brrd's own. */
struct arguments_outputs {
    const char *paths[ARGUMENTS_MAX_LIST];
    uint64_t stamps[ARGUMENTS_MAX_LIST]; /* before the command */
    int n;
};
int arguments_check_outputs(const struct arguments *a, const struct argument_table *table, struct arguments_outputs *ret,
                            struct err *err);
int arguments_list_outputs(const struct arguments_outputs *outputs, struct err *err);

/* True if the word is an option of all commands that takes the next word as its value. */
bool arguments_takes_value(const char *word);
/* For a command line without a command, whose first word is an option: prints what is wrong with it. */
void arguments_tell_common(const char *word);
/* Calls visit for each option of a table, then for those of all commands. */
typedef void arguments_visit_fn(void *ctx, const struct argument *option);
void arguments_each(const struct argument_table *table, arguments_visit_fn *visit, void *ctx);
/* Returns the name among n that is nearest to `word`, or NULL when none is near; stride: bytes between the name pointers. */
const char *arguments_nearest(const char *word, const void *names, int n, unsigned long stride);
