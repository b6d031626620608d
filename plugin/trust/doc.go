// Package trust checks plugins against the keys that the operator trusts, and against a lock
// file. It checks the bytes that are loaded, and does not run them.
//
// Start at policy.go; signature.go has the signatures of prober, cosign.go and artifact.go the
// signatures of cosign, lock.go the [Lock].
//
// # Keys
//
// Public keys are PEM files with one block "PUBLIC KEY" (PKIX), of Ed25519 or of ECDSA
// on P-256; private ones have one block "PRIVATE KEY" (PKCS #8), of Ed25519. The ID of a
// key is the first 16 bytes of the SHA-256 of its PKIX form, as 32 hexadecimal digits:
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
// with one line for each key that signed, at most 16, each key once. SIGNATURE is in base64, with the
// standard alphabet and padding. The key signs this text, in which each line ends with a newline:
//
//	prober.dev/signature/v1
//	module sha256:DIGEST
//	manifest sha256:DIGEST
//
// The last line is present if the manifest is a file beside the module. Without it, anyone who can
// change this file could change the requests of a signed module.
//
// # Cosign
//
// The output of `cosign sign-blob --key` is read too, from x.wasm.sig, x.wasm.cosign.sig,
// x.wasm.cosign.bundle and x.wasm.sigstore.json: a signature in base64, or a bundle of either
// format. ECDSA keys sign the SHA-256 of the module; Ed25519 keys the module itself, or its
// SHA-512 (Ed25519ph). Certificates and transparency logs are ignored. Such a signature does
// not cover a manifest beside the module, and is refused if there is one.
//
// # What a signature does not prove
//
// A signature does not prove that a plugin is the newest version: anyone who can replace files can
// restore an older one. A pin or a [Lock] fixes the bytes. If a key is removed from the trusted keys,
// its plugins are not loaded again; running ones keep running until the agent ends.
//
// # Artifacts
//
// To sign an OCI artifact, cosign signs a small payload with the digest of its manifest: a file,
// or, by default since cosign 3, a statement in a Sigstore bundle. For a program, it signs the
// index that names the platforms, or the manifest of one platform. [plugin.Signature] has these
// documents of a pulled plugin. Check verifies each step from the key to the bytes: the key signs the
// payload, the payload names the index or the manifest, the index names the manifest, and the manifest
// names the module, and for a program the manifest of the plugin.
//
// Bundles with other statements about an artifact, such as its provenance, are ignored.
package trust
