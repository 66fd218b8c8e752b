/* claim: the snapshots of daemons that share a folder. Each daemon has a folder below it, with its own name; a snapshot belongs to
 * the daemon in whose folder it lies. A daemon takes a snapshot over by rename(2) into its own folder, which one of several daemons
 * can do; the former owner notices at its next write (snapshot_file.renew), or by its note
 * (snapshot_note_moved). There is no lease and
 * no clock. Any thread. */
#pragma once
#include "daemon/live/snapshot.h"

/* The result of a claim: the snapshot was in this daemon's folder already, or was moved there together with its model. */
struct claim {
    bool moved, ended; /* ended: the stream has, as in snapshot_entry; of a snapshot that moved */
    char *state;       /* of a snapshot that moved; free() */
    size_t len;
    char *alarm; /* of SNAPSHOT_ALARM, or NULL; free() */
    size_t alarm_len;
    char *eeg; /* of SNAPSHOT_EEG, or NULL; free() */
    size_t eeg_len;
};
/* The snapshots that other daemons have or had: of their folders, which lie beside dir, and those that were taken from dir;
 * free(*ret). After an error some may be missing. */
int claim_others(const char *dir, struct snapshot_entry **ret, size_t *ret_n, struct err *err);
/* Writes the alarm of a stream into the folder of the daemon that has the stream, or had its end (snapshot_write_alarm). NOT_FOUND:
 * no daemon has. */
int claim_hand(const char *dir, const char *id, const void *data, size_t len, struct err *err);
/* The alarms that were handed over to the daemon of folder dir; claim_alarms_free(*ret, *ret_n). One whose stream has gone on to
 * another daemon since follows it there. After an error some may be missing. */
struct claim_alarm {
    char id[SNAPSHOT_ID_SIZE];
    char *data;
    size_t len;
};
int claim_alarms(const char *dir, struct claim_alarm **ret, size_t *ret_n, struct err *err);
void claim_alarms_free(struct claim_alarm *list, size_t n);
/* The snapshot `id` belongs to the daemon of folder dir from now on. NOT_FOUND: no daemon has it. */
int claim_take(const char *dir, const char *id, struct claim *ret, struct err *err);
