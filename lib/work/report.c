#include "work/report.h"

const char *const task_level_names[TASK_LEVELS] = {[TASK_INFO] = "info", [TASK_WARN] = "warn", [TASK_ERROR] = "error"};

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
