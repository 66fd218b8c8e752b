/* check: what a start with a configuration needs besides the file itself, tested without starting or changing anything. */
#pragma once
#include "daemon/config.h"

/* Loads certificate, key, tokens and client CAs as the start does, and checks that paths.cache and paths.results are directories
 * that this user can write or create. Errors are those of the start; but a model of `serve` that cannot be opened, which is an
 * error too, does not keep the daemon from starting. */
int check_config(const struct config *config, struct err *err);
