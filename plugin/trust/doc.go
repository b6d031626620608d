// Package trust decides which plugins are vouched for: by the signature of a key that
// the operator trusts, and by a lock file. It looks at the very bytes that are loaded,
// and runs none of them.
//
// # Keys
//
// Public keys are PEM files with one block "PUBLIC KEY" (PKIX), of Ed25519 or of ECDSA
// on P-256; private ones have one block "PRIVATE KEY" (PKCS #8), of Ed25519. A key's
// id is the first 16 bytes of the SHA-256 of its PKIX form, as 32 hexadecimal digits:
//
//	openssl pkey -pubin -in ops.pub -outform DER | sha256sum | cut -c1-32
//
// # Signature files
//
// The signature of x.wasm is x.wasm.sig beside it, a text of at most 4 KiB:
//
//	prober.dev/signature/v1
//	ed25519 KEYID SIGNATURE
//
// with one line for each key that signed, 16 at most and no key twice. SIGNATURE is in
// base64, of the standard alphabet and padded. What an Ed25519 key signs is this text,
// each line of which ends in a newline:
//
//	prober.dev/signature/v1
//	module sha256:DIGEST
//	manifest sha256:DIGEST
//
// The last line is there when the manifest is no part of the module, but a file of its
// own beside it: else anybody could change what a signed module asks for.
//
// # Cosign
//
// What `cosign sign-blob --key` writes is read as well, from x.wasm.sig,
// x.wasm.cosign.sig, x.wasm.cosign.bundle and x.wasm.sigstore.json: a signature in
// base64, or a bundle of either format. ECDSA keys sign the SHA-256 of the module;
// Ed25519 keys the module itself, or its SHA-512 (Ed25519ph). Certificates and
// transparency logs are not looked at. Such a signature covers no manifest beside the
// module, and is refused where there is one.
//
// # What a signature does not say
//
// That a plugin is the newest of its kind: whoever can exchange files can bring back an
// older one that was signed as well. A pin or a [Lock] says which bytes are meant. A key
// that is no longer trusted keeps its plugins from being loaded again; those that run go
// on until their agent ends.
//
// # Artifacts
//
// Cosign signs an OCI artifact by a small payload that holds the digest of its manifest:
// by a file of its own, or, as a rule since cosign 3, by a statement in a bundle of
// Sigstore's. What is signed of a program is the index that names its platforms, or the
// manifest of one platform. [plugin.Signature] carries all of that for a plugin that was
// pulled, so that each step from the key to the bytes is checked: the key signs the
// payload, the payload names the index or the manifest, the index names the manifest, the
// manifest names the module, and of a program the plugin's own manifest too.
//
// Bundles that say something else of an artifact, such as where it was built, are no
// signatures, and are passed over.
package trust
