// SPDX-License-Identifier: MIT
pragma solidity ^0.8.19;

// Verifier contracts with the functions, events and errors of VerifierProxy 2.0.0 and Verifier 2.0.0 (llo-feeds v0.5.0), written
// anew: anyone may configure them, and there are no fees.

contract VerifierProxy {
  mapping(bytes32 => address) private verifiers;

  error VerifierNotFound(bytes32 configDigest);

  function typeAndVersion() external pure returns (string memory) {
    return "VerifierProxy 2.0.0";
  }

  function getVerifier(bytes32 configDigest) external view returns (address) {
    return verifiers[configDigest];
  }

  function s_feeManager() external pure returns (address) {
    return address(0);
  }

  function setVerifier(bytes32 configDigest) external {
    verifiers[configDigest] = msg.sender;
  }

  function unsetVerifier(bytes32 configDigest) external {
    delete verifiers[configDigest];
  }

  function verify(bytes calldata payload, bytes calldata) external payable returns (bytes memory) {
    return route(payload);
  }

  function verifyBulk(bytes[] calldata payloads, bytes calldata) external payable returns (bytes[] memory reports) {
    reports = new bytes[](payloads.length);
    for (uint256 i; i < payloads.length; ++i) reports[i] = route(payloads[i]);
  }

  function route(bytes calldata payload) private returns (bytes memory) {
    bytes32 configDigest = bytes32(payload);
    if (verifiers[configDigest] == address(0)) revert VerifierNotFound(configDigest);
    return Verifier(verifiers[configDigest]).verify(payload, msg.sender);
  }
}

contract Verifier {
  struct Config {
    uint32 changedAt;
    bool isActive;
    uint8 f;
    mapping(address => bool) signers;
  }

  event ConfigSet(bytes32 indexed configDigest, address[] signers, uint8 f);
  event ConfigUpdated(bytes32 indexed configDigest, address[] prevSigners, address[] newSigners);
  event ReportVerified(bytes32 indexed feedId, address requester);

  error AccessForbidden();
  error DigestInactive(bytes32 configDigest);
  error IncorrectSignatureCount(uint256 numSigners, uint256 expectedNumSigners);
  error BadVerification();

  VerifierProxy private immutable proxy;
  mapping(bytes32 => Config) private configs;

  constructor(VerifierProxy itsProxy) {
    proxy = itsProxy;
  }

  function typeAndVersion() external pure virtual returns (string memory) {
    return "Verifier 2.0.0";
  }

  function latestConfigDetails(bytes32 configDigest) external view returns (uint32) {
    return configs[configDigest].changedAt;
  }

  function setConfig(bytes32 configDigest, address[] calldata signers, uint8 f) external {
    change(configs[configDigest], signers, f);
    proxy.setVerifier(configDigest);
    emit ConfigSet(configDigest, signers, f);
  }

  function updateConfig(bytes32 configDigest, address[] calldata old, address[] calldata signers, uint8 f) external {
    Config storage config = configs[configDigest];
    for (uint256 i; i < old.length; ++i) delete config.signers[old[i]];
    change(config, signers, f);
    emit ConfigUpdated(configDigest, old, signers);
  }

  function setActive(bytes32 configDigest, bool isActive) external {
    configs[configDigest].isActive = isActive;
  }

  function change(Config storage config, address[] calldata signers, uint8 f) private {
    config.changedAt = uint32(block.number);
    config.isActive = true;
    config.f = f;
    for (uint256 i; i < signers.length; ++i) config.signers[signers[i]] = true;
  }

  function verify(bytes calldata signedReport, address sender) external returns (bytes memory) {
    if (msg.sender != address(proxy)) revert AccessForbidden();
    (bytes32[3] memory context, bytes memory blob, bytes32[] memory rs, bytes32[] memory ss, bytes32 vs) = abi.decode(
      signedReport,
      (bytes32[3], bytes, bytes32[], bytes32[], bytes32)
    );
    Config storage config = configs[context[0]];
    if (!config.isActive) revert DigestInactive(context[0]);
    if (rs.length != config.f + 1) revert IncorrectSignatureCount(rs.length, config.f + 1);
    bytes32 hash = keccak256(abi.encodePacked(keccak256(blob), context));
    for (uint256 i; i < rs.length; ++i)
      if (!config.signers[ecrecover(hash, uint8(vs[i]) + 27, rs[i], ss[i])]) revert BadVerification();
    emit ReportVerified(bytes32(blob), sender);
    return blob;
  }
}

contract OldVerifier is Verifier {
  constructor(VerifierProxy itsProxy) Verifier(itsProxy) {}

  function typeAndVersion() external pure override returns (string memory) {
    return "Verifier 1.2.0";
  }
}

contract DestinationVerifierProxy {
  function typeAndVersion() external pure returns (string memory) {
    return "DestinationVerifierProxy 0.4.0";
  }
}
