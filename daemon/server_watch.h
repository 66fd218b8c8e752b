/* server_watch: what may go wrong with the daemon's parts while it runs, and what it does then: logs it once, shows it in
 * brrd_ready and /readyz, holds what cannot work, and stops when only another start of the process helps. Loop thread. */
#pragma once
#include "daemon/server_state.h"

/* Devices that a fault took from the process, or that went bad. First in each turn: the scheduler must begin nothing on them. */
void server_watch_devices(struct daemon *d);
/* Readiness by the state of the served models; sends READY once each of them is warm or has failed. */
void server_watch_models(struct daemon *d);
/* The TCP port, the volumes and the model files. Once a second. */
void server_watch_tick(struct daemon *d);
/* False while an order or call of a device takes so long that only another start of the process helps. Once a second. */
bool server_watch_pulse(struct daemon *d);
