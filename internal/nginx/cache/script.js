// What the gateway notes of responses. Each memory is bounded: the oldest entries make room.
const notes = ngx.shared.notes; // objects whose last response may not be stored, and those of which one may
const tags = ngx.shared.tags; // files in slices, with the last two entity tags
const mixed = ngx.shared.mixed; // files in slices of which an entity tag came back

const unstorable = 1;
const storable = 2;
const longestKey = 1024;

if (njs.version_number < 0x000907) { // has faults in a memory that is full
    throw new Error('njs is older than 0.9.7');
}

// note runs when the header of a response from the origin is there. A note must never cost a response.
function note(r) {
    try {
        noteStorable(r.variables.hit_for_miss_key, r.variables.is_unstorable);
        noteTag(r.variables.file_in_gateway, r.variables.slice_tag);
    } catch (e) {
        r.warn(`script: ${e}`);
    }
}

// isName returns true for what can stand for one object. Bytes that are no UTF-8 become U+FFFD, whatever they are.
function isName(text) {
    return text && text.length <= longestKey && !text.includes('\uFFFD');
}

// noteStorable takes what may be stored for right: one client's response that may not be stored does not take the lock
// from those that wait for it. verdict is '1' for what may not be stored, '0' for what may, and else ''.
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

// noteTag finds out whether servers have different entity tags for one file. A new version of the file has another tag
// too, but then the former one does not come back.
function noteTag(file, tag) {
    if (!tag || !isName(file)) {
        return;
    }
    const seen = (tags.get(file) || '').split(' '); // the last one, and the one before it
    if (tag === seen[0]) {
        return;
    }
    if (tag === seen[1]) {
        mixed.set(file, 1);
    }
    tags.set(file, tag + ' ' + seen[0]);
}

// isUnstorable returns '1' for an object whose responses may not be stored, and else ''.
function isUnstorable(r) {
    return notes.get(r.variables.hit_for_miss_key) === unstorable ? '1' : '';
}

// isMixed returns '1' for a file that must not be fetched in slices, and else ''.
function isMixed(r) {
    return mixed.has(r.variables.file) ? '1' : '';
}

export default {note, isUnstorable, isMixed};
