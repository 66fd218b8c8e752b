/* job_places: the places of jobs and what each has: the first one of each device, further ones, then those in clusters. The daemon
 * fills them (daemon/devices.c); slots (jobs/slots.h) say which job runs where. */
#pragma once
#include "daemon/hosts/device_set.h"
#include "daemon/jobs/job_page.h"
#include "daemon/jobs/process.h"
#include "daemon/jobs/slots.h"

struct job_places {
    struct worker *workers[SLOTS_MAX];
    int n;
    int devices[SLOTS_MAX];                                         /* the device of a place; DEVICE_ANY: in a cluster */
    const struct slurm_config *clusters[SLOTS_MAX];                 /* of these places; NULL: a device */
    bool is_for_cancel[SLOTS_MAX];                                  /* as slot.for_cancel */
    struct turns *turns[DEVICE_SET_MAX], own_turns[DEVICE_SET_MAX]; /* of the jobs of a device: own_turns, or those of its page */
    struct {
        struct job_page *page; /* NULL: jobs run on threads */
        char path[64];
    } pages[DEVICE_SET_MAX];
    struct {
        struct process_config config;
        char cache[4096];
    } processes[SLOTS_MAX];                          /* for each place of a device */
    char described[DEVICE_SET_MAX][JOB_DEVICE_SIZE]; /* "cuda:0: NVIDIA H200, sm_90" */
};
