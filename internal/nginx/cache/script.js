// What the gateway notes of responses. Each memory is bounded: the oldest entries make room.
const unstorable = ngx.shared.unstorable; // objects whose last response may not be stored
const tags = ngx.shared.tags; // files in slices, with the last two entity tags
const mixed = ngx.shared.mixed; // files in slices of which an entity tag came back

// note runs when the header of a response from the origin is there. The variables are "" if it has nothing to do with
// them.
function note(r) {
    const object = r.variables.hit_for_miss_key;
    if (object) {
        noteStorable(object, r.variables.is_unstorable);
    }
    const tag = r.variables.slice_tag;
    if (tag) {
        noteTag(r.headersIn['X-Forwarded-Host'] + r.uri, tag);
    }
}

function noteStorable(object, isUnstorable) {
    if (isUnstorable) {
        unstorable.set(object, '1');
    } else {
        unstorable.delete(object);
    }
}

// noteTag finds out whether servers have different entity tags for one file. A new version of the file has another tag
// too, but then the former one does not come back.
function noteTag(file, tag) {
    const seen = (tags.get(file) || '').split(' '); // the last one, and the one before it
    if (tag === seen[0]) {
        return;
    }
    if (tag === seen[1]) {
        mixed.set(file, '1');
    }
    tags.set(file, tag + ' ' + seen[0]);
}

// isUnstorable returns '1' for an object whose last response may not be stored, and else ''.
function isUnstorable(r) {
    return unstorable.has(r.variables.hit_for_miss_key) ? '1' : '';
}

// isMixed returns '1' for a file that must not be fetched in slices, and else ''.
function isMixed(r) {
    return mixed.has(r.variables.host + r.uri) ? '1' : '';
}

export default {note, isUnstorable, isMixed};
