// The panels, in the order of the navigation. A panel exports `{name, path, title, letter, Panel}`.

import * as callbacks from "./callbacks.js";
import * as charges from "./charges.js";
import * as faults from "./faults.js";
import * as journal from "./journal.js";
import * as network from "./network.js";
import * as requests from "./requests.js";
import * as sandboxes from "./sandboxes.js";
import * as search from "./search.js";
import * as staticCharges from "./static-charges.js";
import * as time from "./time.js";

export const panels = [charges, staticCharges, requests, callbacks, faults, time, network, journal, search, sandboxes];
