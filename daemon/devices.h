/* devices: the devices of the daemon with all that it has for each: hosts, the thread of jobs, the watch over its health. It opens
 * and closes them, carries out what the scheduler decides, gives streams their device, and shows the devices in /metrics. Loop
 * thread. */
#pragma once
#include "daemon/config.h"
#include "daemon/services/services.h"

/* Fills in devices, workers, watches, described and place_stream. The wake function, metrics and source are there. */
int devices_open(struct services *s, const struct config *config, const struct config_source *source, struct err *err);
void devices_close(struct services *s); /* half-opened ones too */
/* What the scheduler, and those who check job files, must know of the devices. */
void devices_fill_sched(struct services *s, struct sched_config *sched);
void devices_fill_rules(struct services *s, struct submission_rules *rules);
/* The ids of the device's running jobs, or "none", for the log. */
enum { DEVICES_JOBS_TEXT = TURNS_MAX * JOB_ID_SIZE };
const char *devices_jobs(const struct services *s, int device, char buf[DEVICES_JOBS_TEXT]);
/* services.place_stream; ctx is the services. */
int devices_place_stream(void *ctx, const char *wanted, const char *model, int *ret, struct err *err);
/* Sets brrd_device_…; once a second. */
void devices_measure(struct services *s);
