/* job_page: memory that the daemon shares with the processes of a device's jobs: how many live batches are under way on the device,
 * for which jobs park, whose turn it is, and the file that each job is in. */
#pragma once
#include "kernels/turns.h"
#include "work/file_cell.h"

struct job_page {
    int live_batches; /* device_share_live */
    struct turns turns;
    struct file_cell files[TURNS_MAX]; /* for each place of the device */
};
/* A page for a device, and its path for other processes of this user ("/proc/PID/fd/N"). It stays until the process ends. */
int job_page_new(struct job_page **ret, char path[64], struct err *err);
/* The page of another process. */
int job_page_open(const char *path, struct job_page **ret, struct err *err);
