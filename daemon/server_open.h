/* server_open: the parts of the daemon, opened from its configuration in the order in which they need each other, and closed. Loop
 * thread. */
#pragma once
#include "daemon/server_state.h"

/* The configuration, loop, handles and meters are there. An error leaves what was opened to server_close. */
int server_open(struct daemon *d, struct err *err);
void server_close(struct daemon *d); /* half-opened ones too */
/* Asks for the models of `serve`. Those that are there already stay. */
void server_seed_models(struct services *s, const struct config *c);
