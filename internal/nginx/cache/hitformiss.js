// Which objects lately came with a response that may not be stored. The key is that of the request to the gateway; ""
// for a request that has nothing to do with it.
const unstorable = ngx.shared.unstorable;

// note remembers, or forgets, an object when the header of a response is there.
function note(r) {
    const key = r.variables.hit_for_miss_key;
    if (!key) {
        return;
    }
    if (r.variables.is_unstorable) {
        unstorable.set(key, '1');
    } else {
        unstorable.delete(key);
    }
}

// isNoted returns '1' for such an object, and else ''.
function isNoted(r) {
    return unstorable.has(r.variables.hit_for_miss_key) ? '1' : '';
}

export default {note, isNoted};
