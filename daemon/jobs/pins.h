/* pins: keeps checkpoints of jobs from being pruned, by a second link of the file (models/model_file) that the job database names.
 * Pins and unpins of all threads wait for one another. Any thread but the loop's; blocks. */
#pragma once
#include "daemon/db/db_writer.h"
#include "daemon/jobs/jobdb.h"

/* Borrowed. */
struct pins {
    const char *results_dir;
    struct db_writer *writer;
};
/* Pins the checkpoint, whose file is at c->c.path; twice is once. UNSUPPORTED where hard links are impossible, NOT_FOUND if its
 * record has gone. */
int pins_add(const struct pins *pins, const struct jobdb_checkpoint *c, struct err *err);
/* Takes the pin and its links away, also of a checkpoint that was pinned after c was read, or is not pinned. */
int pins_remove(const struct pins *pins, const struct jobdb_checkpoint *c, struct err *err);
