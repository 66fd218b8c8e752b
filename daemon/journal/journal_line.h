/* journal_line: an entry on its way to the disk and to receivers. The journal's mailbox, its thread and each receiver
 * hold it; the last holder frees it. All fields but the atomic ones are constant once the line is posted. Any
 * thread. */
#pragma once

#include "base/mailbox.h"
#include "daemon/journal/journal_entry.h"

enum { LINE_DELIVERY = 33 };

enum line_state {
    LINE_WAITS,   /* for the disk */
    LINE_WRITTEN, /* on the disk, or dropped: it will never be written */
    LINE_KNOWN    /* the journal had the entry before: its receivers have been told, or are told by an earlier line */
};

struct journal_stream; /* who has how many lines waiting (journal.c) */

struct journal_line {
    struct message message;
    atomic_int holders, state;
    int64_t made_ms;              /* monotonic clock */
    bool again;                   /* receivers wait for its state: the journal may have the entry already, or offers more of them */
    char delivery[LINE_DELIVERY]; /* told: the delivery that is done; "" = none */
    bool answered;                /* somebody had acknowledged its alarm when it was offered */
    bool silent;                  /* there is no entry: only the delivery is done */
    uint32_t wanted;              /* bit i: receiver i wants the entry */
    struct journal_stream *stream; /* NULL: it counts for no stream */
    struct journal_entry entry;
};

struct journal_line *journal_line_new(const struct journal_entry *e); /* held once; NULL when out of memory */
struct journal_line *journal_line_hold(struct journal_line *l);
void journal_line_drop(struct journal_line *l); /* NULL is fine */
