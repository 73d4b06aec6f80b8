"""PyFlink's ``pyflink.datastream.connectors``."""

from penstock.datastream.connectors.base import DeliveryGuarantee

__all__ = ["DeliveryGuarantee"]
