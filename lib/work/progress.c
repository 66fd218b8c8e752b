/* The functions of task.h that every task needs, apart from task.c, which links the works of all kinds. */
#include <math.h>

#include "work/task.h"

void task_progress_init(struct task_progress *p) {
    *p = (struct task_progress){.loss = NAN,
                                .validation_loss = NAN,
                                .learning_rate = NAN,
                                .gradient_norm = NAN,
                                .windows_per_s = NAN,
                                .data_wait_ratio = NAN,
                                .eta_s = NAN,
                                .metric = NAN,
                                .step_s = NAN};
}
