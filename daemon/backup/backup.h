/* backup: what a backup of a daemon consists of. `Admin.Backup` sends these files (services/svc_backup),
 * brrctl writes them to a directory with their manifest, backup.json, and `brrd --restore` reads that directory (daemon/restore).
 * In it are the job database, the journal and files below paths.results; folders of jobs are left out, because they can be large
 * and copied as they are. */
#pragma once

#include "base/base.h"

#define BACKUP_DATABASE "jobs.sqlite"
#define BACKUP_JOURNAL  "journal.sqlite"
enum { BACKUP_FORMAT = 1, BACKUP_MAX_FILES = 200000 };

struct backup_files {
    char **paths; /* relative to paths.results, sorted within a folder */
    size_t n;
};
/* The files that exist now, without temporary and rejected ones. A thread that may wait for the volume. */
int backup_files(const char *results, struct backup_files *ret, struct err *err);
void backup_files_done(struct backup_files *files);
