/* builtin: the models that every installation has by name, without a file of the user: one for each type without a
 * network (seizure_feature_from_name knows their names), with its initial weights and the thresholds below, and the trained
 * network `demo`, which lies beside the programs (models/NAME.md are the cards of ward and demo). They are ordinary model
 * files in the cache, always the same bytes, so that whatever takes a model file takes them. Any thread; builtin_write waits
 * for the volume. */
#pragma once

#include "detect/modelfile.h"

/* True if a built-in model has this name. It is then meant wherever a model is named, whatever files are there: a file of that name
 * is named with a '/'. A daemon asks its served names first. */
bool builtin_has(const char *name);
/* The one that was probably meant by a name, at most two typing errors away, or NULL. */
const char *builtin_nearest(const char *name);
/* The description of a model without a network: bipolar-18, the usual filters, events from 0.75 to 0.5 of at least 5 s.
 * ward: up to 40 Hz, gaps of 10 s held, events from 0.6 to 0.4 with 60 s of lookback and latch, a temperature of 0.58.
 * INVALID for another name. */
int builtin_model(const char *name, struct modelfile *ret, struct err *err);
/* The path of a built-in model below the cache directory. RANGE: too long. */
int builtin_path(const char *cache, const char *name, char *ret, size_t size, struct err *err);
/* Writes all of them there; files that are being read stay intact. A trained model that is not installed is left out, and its file
 * of another installation is removed. */
int builtin_write(const char *cache, struct err *err);
#define BUILTIN_TRAINED "demo"
/* Where a trained model of this name is installed: ../share/brrd/models of the program. NOT_FOUND for other names. */
int builtin_installed(const char *name, char *ret, size_t size, struct err *err);
