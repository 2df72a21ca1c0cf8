// The gateway's notes about responses. Each dictionary is bounded: new entries replace the oldest ones.
const notes = ngx.shared.notes; // storable or unstorable, for each object that is noted
const tags = ngx.shared.tags; // files in slices, with the last two entity tags
const mixed = ngx.shared.mixed; // files in slices for which an earlier entity tag came back

const unstorable = 1;
const storable = 2;
const longestKey = 1024;

if (njs.version_number < 0x000907) { // has faults if a dictionary is full
    throw new Error('njs is older than 0.9.7');
}

// The variables of routes have names of their own. Each exported function has a form for them, with this suffix.
const ofRoutes = '_of_routes';

function note(r) { noteOf(r, ''); }
function isUnstorable(r) { return unstorableOf(r, ''); }
function isMixed(r) { return mixedOf(r, ''); }
function note_of_routes(r) { noteOf(r, ofRoutes); }
function isUnstorable_of_routes(r) { return unstorableOf(r, ofRoutes); }
function isMixed_of_routes(r) { return mixedOf(r, ofRoutes); }

// noteOf runs when the header of a response from the origin has arrived. It removes ignored cookies. An error in a note
// must never cost the response.
function noteOf(r, suffix) {
    const value = (name) => r.variables[name + suffix];
    try {
        if (value('drops_cookies')) {
            delete r.headersOut['Set-Cookie'];
        }
        noteStorable(value('hit_for_miss_key'), value('is_unstorable'));
        noteTag(value('file_in_gateway'), value('slice_tag'));
    } catch (e) {
        r.warn(`script: ${e}`);
    }
}

// isName returns true for a text that can identify one object. Bytes that are not UTF-8 all become U+FFFD, so
// different names would look the same.
function isName(text) {
    return text && text.length <= longestKey && !text.includes('\uFFFD');
}

// noteStorable gives precedence to a response that may be stored. So a response to one client that may not be stored
// does not switch the lock off for all other requests. verdict is '1' for a response that may not be stored, '0' for
// a response that may be stored, and '' otherwise.
function noteStorable(object, verdict) {
    if (!isName(object) || !verdict) {
        return;
    }
    if (verdict === '0') {
        notes.set(object, storable);
    } else if (notes.get(object) !== storable) {
        notes.set(object, unstorable);
    }
}

// noteTag finds out whether servers send different entity tags for one file. A new version of the file also has
// another tag, but then the former tag does not come back.
function noteTag(file, tag) {
    if (!tag || !isName(file)) {
        return;
    }
    const seen = (tags.get(file) || '').split(' '); // the last tag, and the tag before it
    if (tag === seen[0]) {
        return;
    }
    if (tag === seen[1]) {
        mixed.set(file, 1);
    }
    tags.set(file, tag + ' ' + seen[0]);
}

// unstorableOf returns '1' for an object whose responses may not be stored, and '' otherwise.
function unstorableOf(r, suffix) {
    return notes.get(r.variables['hit_for_miss_key' + suffix]) === unstorable ? '1' : '';
}

// mixedOf returns '1' for a file that must not be fetched in slices, and '' otherwise.
function mixedOf(r, suffix) {
    return mixed.has(r.variables['file' + suffix]) ? '1' : '';
}

// expiresIn returns the number of seconds until the date in the header Expires of the origin's response. It returns 0
// for a date in the past, and for a text that is no date, as nginx does.
function expiresIn(r) {
    const at = Date.parse(r.variables.upstream_http_expires);
    return String(isNaN(at) ? 0 : Math.max(0, Math.floor((at - Date.now()) / 1000)));
}

export default {expiresIn, note, isUnstorable, isMixed, note_of_routes, isUnstorable_of_routes, isMixed_of_routes};
